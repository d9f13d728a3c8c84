#!/bin/sh
# assemble.sh FOLDER ARCH   What an image holds of this repository, in FOLDER: the built program and the one package with native
# code, for Linux on ARCH (arm64 or amd64). Runs in the root of the repository after npm ci, inside and outside of Docker.
set -eu
folder=$1
case $2 in arm64) arch=arm64 ;; amd64) arch=x64 ;; *) echo "no image for $2" >&2; exit 1 ;; esac

node esbuild.config.mjs --package
mkdir -p "$folder/node_modules"
cp -R bin dist package.json LICENSE "$folder"
for name in zeromq cmake-ts; do cp -R "node_modules/$name" "$folder/node_modules"; done
native=$folder/node_modules/zeromq
rm -rf "$native/build/darwin" "$native/build/win32" "$native/src" "$native/script"
for other in "$native/build/linux"/*; do [ "$(basename "$other")" = "$arch" ] || rm -rf "$other"; done
