#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Run a command of an image's build with what the host lends it: certificate authorities, package
# mirrors, wheels. Each is optional, and none of it stays in the image.
set -eu

bundle=/run/secrets/ca-bundle
if [ -s "$bundle" ]; then
    export SSL_CERT_FILE="$bundle" PIP_CERT="$bundle" REQUESTS_CA_BUNDLE="$bundle"
    export GIT_SSL_CAINFO="$bundle"
fi

export APT_CONFIG=/run/rpent-box-apt.conf
trap 'rm -f "$APT_CONFIG"' EXIT
: >"$APT_CONFIG"
if [ -s "$bundle" ]; then
    echo "Acquire::https::CaInfo \"$bundle\";" >>"$APT_CONFIG"
fi
if [ -s /run/secrets/apt-sources ]; then
    echo 'Dir::Etc::sourcelist "/run/secrets/apt-sources";' >>"$APT_CONFIG"
    echo 'Dir::Etc::sourceparts "/dev/null";' >>"$APT_CONFIG"
fi

if [ -d /run/wheels ]; then
    export UV_FIND_LINKS=/run/wheels PIP_FIND_LINKS=/run/wheels
fi
if [ -n "${OFFLINE:-}" ]; then
    export UV_NO_INDEX=1 PIP_NO_INDEX=1
fi

# Caches are other file systems than the image: hard links would fail, and uv would say so.
export UV_LINK_MODE=copy PIP_DISABLE_PIP_VERSION_CHECK=1 DEBIAN_FRONTEND=noninteractive
"$@"
