#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Run a module: MODULE ARGUMENTS. The root file system is read-only, so caches that were filled
# when the image was built are copied to where they may be written.
cp -R /opt/rpent-box/warm/. /tmp/ 2>/dev/null || :
exec /opt/rpent-box/bin/python3 -m "$@"
