/** What of /sys comes with a device, on a machine with a card of PCI, which this one has not. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { PathFact, PathFacts } from '@squash/policy/paths/compile';
import { sysfsOf } from './device-sysfs.ts';

const card = '/sys/devices/pci0000:00/0000:00:01.0/0000:03:00.0';
const links: Readonly<Record<string, string>> = {
  '/sys/dev/char/226:128': `../../devices/pci0000:00/0000:00:01.0/0000:03:00.0/drm/renderD128`,
  [`${card}/drm/renderD128/device`]: '../../../0000:03:00.0',
  '/sys/dev/char/81:0': '../../devices/platform/soc/video0',
  '/sys/devices/platform/soc/video0/device': '../../soc',
  '/sys/dev/char/10:1': '../../../etc',
};
const directories = [
  card,
  `${card}/drm/renderD128`,
  '/sys/devices/platform/soc/video0',
  '/sys/devices/platform/soc',
  '/etc',
];
const devices: Readonly<Record<string, readonly [major: number, minor: number]>> = {
  '/dev/dri/renderD128': [226, 128],
  '/dev/video0': [81, 0],
  '/dev/odd': [10, 1],
  '/dev/none': [10, 2],
};

const facts: PathFacts = {
  stat(path): PathFact | undefined {
    const number = devices[path];
    if (path in links) return { type: 'link', identity: '1:1' };
    if (directories.includes(path)) return { type: 'directory', identity: '1:2' };
    if (number === undefined) return undefined;
    const [major, minor] = number;
    return {
      type: 'device',
      identity: '1:3',
      device: { isBlock: false, major, minor, drivers: [], isOpenable: true },
    };
  },
  links: (path) => links[path] ?? '',
};

test('a card has its function’s directory, any other device its own, and a link out of there is none', () => {
  assert.deepEqual(sysfsOf(Object.keys(devices), facts), {
    '/sys/dev/char/226:128': 'ro',
    [`${card}/drm/renderD128`]: 'ro',
    [card]: 'ro',
    '/sys/dev/char/81:0': 'ro',
    '/sys/devices/platform/soc/video0': 'ro',
  });
});
