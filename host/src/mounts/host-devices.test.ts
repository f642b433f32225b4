/** The judge over devices: what each kind of number is, with drivers as kernels of other machines name them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { deviceProblem } from './host-devices.ts';

const rows: readonly (readonly [number, number, string, RegExp | undefined])[] = [
  [226, 128, 'drm', undefined],
  [226, 191, 'drm', undefined],
  [226, 0, 'drm', /types and sees/],
  [195, 0, 'nvidia nvidia-modeset nvidiactl', undefined],
  [195, 255, 'nvidia-frontend', undefined],
  [195, 254, 'nvidia nvidia-modeset nvidiactl', /types and sees/],
  [511, 0, 'nvidia-uvm', undefined],
  [240, 1, 'nvidia-caps', undefined],
  [234, 0, 'kfd', undefined],
  [261, 0, 'accel', undefined],
  [10, 120, 'dxg', undefined],
  [10, 232, 'kvm', undefined],
  [10, 229, 'fuse', undefined],
  [10, 238, 'vhost-net', /network/],
  [10, 241, 'vhost-vsock', /network/],
  [10, 200, 'tun', /network/],
  [246, 3, 'macvtap', /network/],
  [10, 223, 'uinput', /types and sees/],
  [10, 239, 'uhid', /types and sees/],
  [245, 0, 'hidraw', /types and sees/],
  [189, 3, 'usb_device', /types and sees/],
  [29, 0, 'fb', /types and sees/],
  [10, 236, 'device-mapper', /disks/],
  [10, 203, 'cuse', /disks/],
  [10, 196, 'vfio', /memory/],
  [236, 0, 'vfio', /memory/],
  [21, 0, 'sg', /disks/],
  [241, 0, 'nvme', /disks/],
  [1, 2, 'mem', /memory/],
  [203, 0, 'cpu/cpuid', /memory/],
  [4, 64, '/dev/vc/0 tty ttyS', /terminal/],
  [7, 1, 'vcs', /terminal/],
  [188, 0, 'ttyUSB', /terminal/],
  [166, 0, 'ttyACM', /terminal/],
  [250, 0, 'ptp', /controls/],
  [10, 224, 'tpm', /controls/],
  [10, 77, '', /does not say/],
];

for (const [major, minor, names, says] of rows) {
  test(`the judge says ${says?.source ?? 'yes'} to ${major}:${minor} ${names}`, () => {
    const drivers = names === '' ? [] : names.split(' ');
    const device = { isBlock: false, major, minor, drivers, isOpenable: true };
    for (const isRoot of [false, true]) {
      const problem = deviceProblem(device, { isRoot });
      if (says === undefined) assert.equal(problem, undefined);
      else assert.match(problem ?? 'yes', says);
    }
    assert.match(deviceProblem({ ...device, isBlock: true }, { isRoot: false }) ?? '', /disk/);
  });
}

test('what the judge does not know is for an ordinary user who can open it', () => {
  const device = { isBlock: false, major: 81, minor: 0, drivers: ['video4linux'], isOpenable: true };
  assert.equal(deviceProblem(device, { isRoot: false }), undefined);
  assert.match(deviceProblem({ ...device, isOpenable: false }, { isRoot: false }) ?? '', /open it yourself/);
  assert.match(deviceProblem(device, { isRoot: true }) ?? '', /root can open/);
});
