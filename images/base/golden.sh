#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Compare the simulator of an image that is being built with what was recorded of known scenes:
# RECIPE checked|skipped. Other physics or another renderer end the build. What is compiled on the
# way is kept for the containers: start.sh puts it where they look for it.
set -eu

case "$2" in
    checked) ;;
    skipped)
        echo "golden: skipped, as asked; nobody knows whether physics and renderer are as recorded"
        exit 0 ;;
    *)
        echo "golden: GOLDEN is $2; wanted: checked or skipped" >&2
        exit 2 ;;
esac

# As in a container: nobody's user, and nobody to ask. One image may serve several platforms.
names='from rpent_box.plugins import platform_names; print(*platform_names())'
for platform in $(python3 -c "$names"); do
    if ! sh /opt/rpent-box/start.sh rpent_box.sim.check "$platform" --golden <&- >/dev/null; then
        echo "golden: $platform is not as recorded, or could not be asked: see above" >&2
        echo "next:   build it without this check: rpent-box build $1 --skip-golden" >&2
        exit 1
    fi
done
for cache in numba cache; do
    if [ -d "/tmp/$cache" ]; then cp -R "/tmp/$cache" /opt/rpent-box/warm/; fi
done
# A container has any user; Mesa keeps its cache to the one that filled it.
find /opt/rpent-box/warm -mindepth 1 -exec chmod a+rX {} +
rm -rf /tmp/*
