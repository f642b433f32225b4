/**
 * Whether a box may have a device of the host: by what the kernel says that its number is, never by its name alone. Pure.
 *
 * What leads out of the wall whoever opens it is refused to everybody: disks, memory, networks, other people's terminals, keys that
 * somebody types. Some kinds are known to be a program's own business with its hardware; what is neither is for a user who can open it
 * himself. Root can open everything, and has the known kinds.
 */

import type { DeviceFact } from '@squash/policy/paths/compile';

/** Of the render nodes; below are cards, which show the screen. */
const renderMinorsFirst = 128;
const drmMajor = 226;
/** One number for all of it; behind this one is the screen. */
const nvidiaMajor = 195;
const nvidiaScreenMinor = 254;

const knownKinds = /^(?:nvidia(?:ctl|-frontend|-modeset|-uvm|-caps.*)?|kfd|dxg|accel|kvm|fuse)$/;

const words = (text: string): readonly string[] => text.split(' ');

const closedScreen = 'it shows or makes what somebody types and sees';

/** Numbers that are the kernel's for good (Documentation/admin-guide/devices.txt). */
const closedMajors: readonly (readonly [majors: readonly number[], sentence: string])[] = [
  [[1, 202, 203], 'it reaches memory of this machine'],
  [[2, 3, 4, 5, 7, ...Array.from({ length: 16 }, (_, at) => 128 + at)], 'it is a terminal of this machine'],
  [[13, 29, 180, 189], closedScreen],
  [[9, 21, 90, 97, 162, 206], 'it reaches disks of this machine'],
  [[108, 231], 'it is a network of its own'],
];

/** Others have a number of this boot. */
const closedDrivers: readonly (readonly [drivers: RegExp, sentence: string])[] = [
  [
    pattern(
      'mem cpu/.* msr cpuid nvram hpet snapshot userfaultfd uio vfio.* iommu dax ndctl dimmctl mtd.* udmabuf mcelog',
    ),
    'it reaches memory of this machine',
  ],
  [
    pattern(
      'loop-control device-mapper btrfs-control raw sg st osst bsg nvme.* rpmb ubi.* autofs ecryptfs cachefiles cuse mapper/.* zfs .*_ioctl .*ctl_cam mpt.*ctl',
    ),
    'it reaches disks or file systems of this machine',
  ],
  [
    pattern(
      'tun macvtap ipvtap tap ppp vhost-.* vduse.* vsock vmci rfkill infiniband_.* rdma_.* uverbs.* issm.* umad.* virtio-ports.* xen/.* xen_.* hci_vhci',
    ),
    'it is a network of its own, or leads to one',
  ],
  [
    pattern('tty[a-zA-Z_]* /dev/.* vcs vc pt[ms] pty ttyp hvc hvsi xvc console'),
    'it is a terminal of this machine',
  ],
  [
    pattern('input uinput uhid hidraw hiddev usb usb_device usbmon psaux vhci fb drm vga_arbiter'),
    closedScreen,
  ],
  [
    pattern(
      'watchdog.* rtc ptp pps ipmidev.* mei.* kmsg hw_random cpu_dma_latency tpm.* gpiochip i2c.* spi.* binder.* sev.* tdx.* vbox.* vmmon .*acpi.*',
    ),
    'it controls this machine',
  ],
];

function pattern(text: string): RegExp {
  return new RegExp(`^(?:${words(text).join('|')})$`);
}

/** @returns why not */
export function deviceProblem(
  { isBlock, major, minor, drivers, isOpenable }: DeviceFact,
  { isRoot }: { readonly isRoot: boolean },
): string | undefined {
  if (isBlock) return 'it is a disk (a block device), and who reaches one reaches every file on it';
  if (major === drmMajor && minor >= renderMinorsFirst) return undefined;
  if (major === nvidiaMajor && minor === nvidiaScreenMinor) return closedScreen;
  if (drivers.length > 0 && drivers.every((driver) => knownKinds.test(driver))) return undefined;
  const [, closed] =
    closedMajors.find(([majors]) => majors.includes(major)) ??
    closedDrivers.find(([names]) => drivers.some((driver) => names.test(driver))) ??
    [];
  if (closed !== undefined) return closed;
  if (drivers.length === 0) return 'the kernel does not say what it is';
  if (isRoot) return `root can open every device, and "${drivers.join(' ')}" is none that boxes know`;
  return isOpenable ? undefined : 'you can’t open it yourself';
}
