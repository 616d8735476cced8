"""A small client command for chat APIs, as people write them: prints the answer, or what the server replied instead.

Usage: chat.py openai|anthropic BASE_URL; the prompt on standard input. Exit 0 with the answer's text; 1 with the raw
reply (status line, headers, body) or the trouble with the line on standard error.
"""

import http.client
import json
import os
import sys
from urllib.parse import urlsplit

dialect, base = sys.argv[1:3]
url = urlsplit(base)
path = {"openai": "/v1/chat/completions", "anthropic": "/v1/messages"}[dialect]
headers = {"content-type": "application/json", "authorization": "Bearer sk-test-0123456789abcdef"}
if dialect == "anthropic":
    headers |= {"x-api-key": "sk-ant-0123456789abcdef", "anthropic-version": "2023-06-01"}
question = {"role": "user", "content": sys.stdin.read()}
body = {"model": os.environ.get("CHAT_MODEL", "gpt-4o"), "max_tokens": 200, "messages": [question]}
assert url.hostname
connection = http.client.HTTPConnection(url.hostname, url.port or 80, timeout=20)
try:
    connection.request("POST", url.path + path, json.dumps(body), headers)
    reply = connection.getresponse()
    text = reply.read().decode("utf-8", "replace")
except OSError as error:
    sys.exit(f"{type(error).__name__}: {error}")
if reply.status != 200:
    print(
        f"HTTP/1.1 {reply.status} {reply.reason}",
        *map(": ".join, reply.getheaders()),
        sep="\n",
        file=sys.stderr,
    )
    print(f"\n{text}", file=sys.stderr)
    sys.exit(1)
answer = json.loads(text)
print(answer["choices"][0]["message"]["content"] if dialect == "openai" else answer["content"][0]["text"])
