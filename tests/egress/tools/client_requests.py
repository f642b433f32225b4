# client_requests.py URL [AUTHORIZATION]: the same with requests.
import sys

import requests

headers = {"Authorization": sys.argv[2]} if len(sys.argv) > 2 else {}
answer = requests.get(sys.argv[1], headers=headers, timeout=20)
print(answer.status_code, answer.text)
sys.exit(0 if answer.ok else 22)
