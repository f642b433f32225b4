#!/bin/busybox sh
# shellcheck shell=dash
#
# First process of the test guest: loads the drivers of disk and quota, mounts the root and hands over to systemd.
# Debian's own initramfs is not used: building it needs a chroot as root, booting it a second more of emulation.
/bin/busybox mount -t devtmpfs dev /dev
for module in virtio_ring virtio virtio_pci_modern_dev virtio_pci_legacy_dev virtio_pci virtio_blk quota_tree quota_v2; do
  /bin/busybox insmod "/modules/$module.ko"
done
until [ -b /dev/vda ]; do /bin/busybox usleep 20000; done
/bin/busybox mount -t ext4 -o prjquota /dev/vda /root
/bin/busybox mount --move /dev /root/dev
exec /bin/busybox switch_root /root /sbin/init
