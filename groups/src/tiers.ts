/** The tiers that are always there. They can't be changed: what a document says of them holds everywhere. */
import type { Tier } from '@squash/contract/tiers';
import { groupLimits } from '@squash/contract/group-limits';

const own = { own: 'allow', others: 'deny' } as const;
const all = { own: 'allow', others: 'allow' } as const;
const asked = { own: 'allow', others: 'hold' } as const;
const times = {
  timeout_s: groupLimits.timeoutS.default,
  idle_timeout_s: groupLimits.idleTimeoutS.default,
  warm_s: 0,
};

export const builtInTiers: readonly Tier[] = [
  {
    name: 'main',
    built_in: true,
    message: all,
    start: all,
    read: all,
    schedule: all,
    schedule_every_s_min: 60,
    create: 'allow',
    create_tiers: ['trusted', 'untrusted'],
    reach: ['*'],
    secrets: 'all',
    mounts: 'rw',
    global_memory: 'rw',
    runs_max: groupLimits.runsMax,
    priority: 2,
    ...times,
  },
  {
    name: 'trusted',
    built_in: true,
    message: asked,
    start: asked,
    read: all,
    schedule: asked,
    schedule_every_s_min: 300,
    create: 'hold',
    create_tiers: ['untrusted'],
    reach: ['*'],
    secrets: 'all',
    mounts: 'ro',
    global_memory: 'ro',
    runs_max: groupLimits.runsMax,
    priority: 1,
    ...times,
  },
  {
    name: 'untrusted',
    built_in: true,
    message: own,
    start: own,
    read: own,
    schedule: own,
    schedule_every_s_min: 3_600,
    create: 'deny',
    create_tiers: [],
    reach: [],
    secrets: [],
    mounts: 'ro',
    global_memory: 'ro',
    runs_max: groupLimits.runsMax / 2,
    priority: 0,
    ...times,
  },
];
