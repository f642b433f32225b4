#!/bin/sh
# Runs as root of the new guest system, in a chroot, once while the image is built: everything in the guest
# that does not come from a Debian package. $1 holds this folder's files and, in modules/, the kernel's.
set -eu
stage=$1

# Only the modules a container host loads: the whole tree would be two thirds of the image.
version=$(ls "$stage/modules")
for part in fs/overlayfs fs/squashfs fs/fuse fs/quota drivers/block drivers/char drivers/virtio \
  net/netfilter net/ipv4 net/ipv6 lib crypto; do
  mkdir -p "/lib/modules/$version/kernel/$part"
  cp -a "$stage/modules/$version/kernel/$part/." "/lib/modules/$version/kernel/$part/"
done
cp "$stage/modules/$version"/modules.builtin* "$stage/modules/$version/modules.order" "/lib/modules/$version/"
depmod "$version"
printf 'overlay\nsquashfs\nfuse\nloop\nvirtio_console\nquota_v2\n' >/etc/modules-load.d/squash.conf

install -m 755 "$stage/agent.sh" /usr/local/sbin/squash-test-agent
install -m 644 "$stage/agent.service" /etc/systemd/system/squash-test-agent.service
ln -s ../squash-test-agent.service /etc/systemd/system/multi-user.target.wants/squash-test-agent.service

# alice: an ordinary user with subordinate ids, as Debian's adduser makes them. bob: one without.
useradd -m -s /bin/bash -u 1000 alice
useradd -m -s /bin/bash -u 1001 bob
printf 'alice:100000:65536\n' | tee /etc/subuid >/etc/subgid

# The project under test and Node come on two read-only disks: nothing of them is in the cached image.
mkdir -p /opt/squash /opt/node
# On a busy machine the emulated one takes minutes to see its disks.
cat >/etc/fstab <<END
/dev/vda / ext4 prjquota 0 1
/dev/vdb /opt/squash squashfs ro,x-systemd.device-timeout=10min 0 0
/dev/vdc /opt/node squashfs ro,x-systemd.device-timeout=10min 0 0
END
ln -s /opt/node/node /usr/local/bin/node
echo squashvm >/etc/hostname
printf '127.0.0.1 localhost squashvm\n' >/etc/hosts
echo 0123456789abcdef0123456789abcdef >/etc/machine-id

# A parser with libraries of its own; nothing of it is loaded at boot.
mkdir /opt/apparmor
tar -xf "$stage/apparmor.tar" -C /opt/apparmor ./usr/sbin/apparmor_parser ./usr/lib/x86_64-linux-gnu ./usr/lib64 ./etc/apparmor.d
cat >/usr/local/sbin/apparmor_parser <<'END'
#!/bin/sh
exec /opt/apparmor/usr/lib64/ld-linux-x86-64.so.2 --library-path /opt/apparmor/usr/lib/x86_64-linux-gnu \
  /opt/apparmor/usr/sbin/apparmor_parser --base /opt/apparmor/etc/apparmor.d "$@"
END
chmod 755 /usr/local/sbin/apparmor_parser

# Work a test guest has no use for and that costs seconds of emulation.
mkdir -p /etc/systemd/system/systemd-udev-trigger.service.d
cat >/etc/systemd/system/systemd-udev-trigger.service.d/few.conf <<'END'
[Service]
ExecStart=
ExecStart=udevadm trigger --action=add --subsystem-match=block --subsystem-match=virtio-ports --subsystem-match=misc
END
for unit in modprobe@configfs.service modprobe@dm_mod.service modprobe@drm.service modprobe@efi_pstore.service \
  modprobe@fuse.service modprobe@loop.service kmod-static-nodes.service sys-kernel-config.mount sys-kernel-debug.mount \
  sys-kernel-tracing.mount dev-hugepages.mount dev-mqueue.mount systemd-random-seed.service systemd-sysusers.service \
  systemd-pstore.service systemd-machine-id-commit.service systemd-journal-flush.service systemd-update-utmp-runlevel.service \
  systemd-tmpfiles-clean.timer \
  apt-daily.timer apt-daily-upgrade.timer e2scrub_all.timer e2scrub_reap.service fstrim.timer \
  dpkg-db-backup.timer systemd-timesyncd.service getty@tty1.service serial-getty@ttyS0.service \
  systemd-update-utmp.service; do
  ln -sf /dev/null "/etc/systemd/system/$unit"
done
rm -rf "$stage"
