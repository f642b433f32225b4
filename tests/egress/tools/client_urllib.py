# client_urllib.py URL [AUTHORIZATION]: status and body with Python's standard library.
import sys
import urllib.error
import urllib.request

request = urllib.request.Request(sys.argv[1])
if len(sys.argv) > 2:
    request.add_header("Authorization", sys.argv[2])
try:
    with urllib.request.urlopen(request, timeout=20) as answer:
        print(answer.status, answer.read().decode())
except urllib.error.HTTPError as error:
    print(error.code, error.read().decode())
    sys.exit(22)
