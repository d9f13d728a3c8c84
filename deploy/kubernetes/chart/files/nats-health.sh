wget -q -O - http://127.0.0.1:8222/healthz > /dev/null || exit 1
