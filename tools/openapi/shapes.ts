/** The names of the shapes that clients meet often. A generated client has a type of this name for each. */
import { actionDecisionSchema, actionSchema } from '@squash/contract/actions';
import {
  chatChangeSchema,
  chatCreateSchema,
  chatSchema,
  groupChangeSchema,
  groupCreateSchema,
  groupSchema,
  messageBodySchema,
  messageTakenSchema,
  outMessageSchema,
  outPageSchema,
  runSchema,
} from '@squash/contract/groups';
import {
  scheduleChangeSchema,
  scheduleCreateSchema,
  scheduleRunSchema,
  scheduleSchema,
} from '@squash/contract/schedules';
import { tierBodySchema, tierSchema } from '@squash/contract/tiers';
import { bucketListSchema, bucketObjectSchema, bucketSchema } from '@squash/contract/bucket';
import { imagePullSchema, imagePushSchema, imageSchema, sandboxImageSchema } from '@squash/contract/image';
import { auditEntrySchema } from '@squash/contract/audit';
import {
  approvalDecisionSchema,
  approvalPageSchema,
  approvalSchema,
  standingApprovalSchema,
} from '@squash/contract/approvals';
import { callerControlSchema, callerEventSchema } from '@squash/contract/callers';
import { capabilitySchema } from '@squash/contract/capability';
import {
  cellEventSchema,
  cellRunSchema,
  contextCreateSchema,
  contextSchema,
  executionSchema,
} from '@squash/contract/context';
import { healthSchema, infoSchema, problemSchema } from '@squash/contract/daemon';
import {
  egressDecisionInfoSchema,
  egressDecisionsSchema,
  policyAnswerSchema,
  policyLearnAnswerSchema,
  policyTestAnswerSchema,
  policyTestBodySchema,
  presetInfoSchema,
  sandboxPolicySchema,
} from '@squash/contract/egress';
import { eventSchema } from '@squash/contract/events';
import {
  execBodySchema,
  execControlSchema,
  execEventSchema,
  execRecordSchema,
  execStartSchema,
  jobBodySchema,
  jobDoneSchema,
  jobInfoSchema,
} from '@squash/contract/exec';
import {
  fileEventSchema,
  fileMatchesSchema,
  fileMatchSchema,
  filePageSchema,
  fileSchema,
} from '@squash/contract/file';
import {
  keyBodySchema,
  keyCreatedSchema,
  keyInfoSchema,
  keySelfSchema,
  ownerInfoSchema,
  quotaBodySchema,
  quotaSchema,
  quotaUseSchema,
} from '@squash/contract/keys';
import { sshKeyBodySchema, sshKeySchema, sshLoginSchema } from '@squash/contract/ssh-keys';
import { refusedPathSchema, refusedPathsSchema } from '@squash/contract/paths';
import { moduleManifestSchema } from '@squash/contract/module-manifest';
import {
  gcAnswerSchema,
  gcBodySchema,
  moduleActivateSchema,
  moduleDetailsSchema,
  moduleInfoSchema,
  moduleNamesSchema,
  modulePageSchema,
  moduleSchema,
  seedGcAnswerSchema,
  seedGcBodySchema,
} from '@squash/contract/module';
import {
  sandboxChangeSchema,
  sandboxCreateSchema,
  sandboxPageSchema,
  sandboxSchema,
} from '@squash/contract/native-sandbox';
import {
  differenceSchema,
  diffPageSchema,
  snapshotChangeSchema,
  snapshotCreateSchema,
  snapshotPageSchema,
  snapshotRestoreSchema,
  snapshotSchema,
  snapshotTakenSchema,
} from '@squash/contract/native-snapshot';
import { policyShape } from '@squash/contract/policy';
import {
  portInfoSchema,
  portLinkBodySchema,
  portLinkSchema,
  portListSchema,
  portSchema,
  portSetBodySchema,
  tcpMessageSchema,
} from '@squash/contract/ports';
import {
  activateBodySchema,
  createBodySchema,
  restoreBodySchema,
  sandboxInfoSchema,
  snapshotAnswerSchema,
  snapshotBodySchema,
  snapshotInfoSchema,
  warningSchema,
} from '@squash/contract/sandbox';
import {
  processControlSchema,
  processEventSchema,
  processExecBodySchema,
  processInfoSchema,
  processResultSchema,
  processSignalBodySchema,
  processStartBodySchema,
  waitAnswerSchema,
} from '@squash/contract/process';
import { ticketBodySchema, ticketSchema } from '@squash/contract/operations/tickets';
import { secretChangeSchema, secretInfoSchema } from '@squash/contract/secrets';
import { sandboxUsageSchema } from '@squash/contract/usage';
import {
  webhookChangeSchema,
  webhookCreateSchema,
  webhookMadeSchema,
  webhookSchema,
  webhookTestSchema,
} from '@squash/contract/webhooks';
import {
  mountInfoSchema,
  mountWishSchema,
  volumeBodySchema,
  volumeInfoSchema,
  volumeSnapshotBodySchema,
} from '@squash/contract/volume';
import { mountCheckAnswerSchema, mountCheckBodySchema } from '@squash/contract/mount-check';
import { z } from 'zod';

interface Shape {
  readonly schema: z.ZodType;
  /** What a client sends, as a reader would write it. */
  readonly example?: unknown;
}

export const shapes: Readonly<Record<string, Shape>> = {
  Approval: { schema: approvalSchema },
  ApprovalPage: { schema: approvalPageSchema },
  ApprovalDecision: { schema: approvalDecisionSchema, example: { decision: 'allow', scope: 'once' } },
  StandingApproval: { schema: standingApprovalSchema },
  SandboxCreate: {
    schema: sandboxCreateSchema,
    example: {
      name: 'build',
      labels: { project: 'web' },
      from: { layers: ['000-base-debian'] },
      policy: { allow: ['preset:npm'] },
    },
  },
  SandboxChange: { schema: sandboxChangeSchema, example: { labels: { project: 'api' }, memory_mb: 2_048 } },
  Sandbox: { schema: sandboxSchema },
  SandboxPage: { schema: sandboxPageSchema },
  SeedSandboxCreate: {
    schema: createBodySchema,
    example: {
      id: 'dev',
      layers: ['000-base-debian', '100-python311'],
      allow_net: ['preset:pypi', 'api.example.com:443'],
    },
  },
  SandboxInfo: { schema: sandboxInfoSchema },
  SnapshotInfo: { schema: snapshotInfoSchema },
  Snapshot: { schema: snapshotSchema },
  Difference: { schema: differenceSchema },
  DiffPage: { schema: diffPageSchema },
  SnapshotPage: { schema: snapshotPageSchema },
  SnapshotCreate: {
    schema: snapshotCreateSchema,
    example: { label: 'clean', labels: { step: 'installed' } },
  },
  SnapshotTaken: { schema: snapshotTakenSchema },
  SnapshotChange: { schema: snapshotChangeSchema, example: { labels: { step: 'tested' } } },
  SnapshotRestore: { schema: snapshotRestoreSchema, example: { snapshot: 'clean' } },
  Warning: { schema: warningSchema },
  SeedModuleActivate: { schema: activateBodySchema, example: { module: '200-tools' } },
  SeedGcStart: { schema: seedGcBodySchema, example: { dry_run: true } },
  SeedGcAnswer: { schema: seedGcAnswerSchema },
  SeedSnapshotCreate: { schema: snapshotBodySchema, example: { label: 'clean' } },
  SeedSnapshotAnswer: { schema: snapshotAnswerSchema },
  SeedSnapshotRestore: { schema: restoreBodySchema, example: { label: 'clean' } },
  VolumeCreate: { schema: volumeBodySchema, example: { name: 'data', labels: { team: 'core' } } },
  VolumeInfo: { schema: volumeInfoSchema },
  VolumeSnapshotCreate: { schema: volumeSnapshotBodySchema, example: { name: 'data-monday' } },
  MountWish: { schema: mountWishSchema, example: { volume: 'data', path: '/data' } },
  MountInfo: { schema: mountInfoSchema },
  MountCheck: {
    schema: mountCheckBodySchema,
    example: { host: '/srv/data', path: '/workspace/extra/data', tier: 'untrusted' },
  },
  MountCheckAnswer: { schema: mountCheckAnswerSchema },
  ExecRequest: {
    schema: execBodySchema,
    example: { cmd: 'python3 -c "print(42)"', workdir: '/root', timeout: 60 },
  },
  ExecRecord: { schema: execRecordSchema },
  ProcessExec: {
    schema: processExecBodySchema,
    example: { argv: ['tr', 'a-z', 'A-Z'], stdin: 'hello', timeout_ms: 60_000 },
  },
  ProcessResult: { schema: processResultSchema },
  ProcessStart: {
    schema: processStartBodySchema,
    example: { shell: 'echo one; sleep 1; echo two', tag: 'build', cwd: '/tmp' },
  },
  ProcessInfo: { schema: processInfoSchema },
  ProcessEvent: { schema: processEventSchema },
  ProcessControl: { schema: processControlSchema },
  ProcessSignal: { schema: processSignalBodySchema, example: { signal: 'TERM' } },
  ProcessWait: { schema: waitAnswerSchema },
  ContextCreate: { schema: contextCreateSchema, example: { language: 'python', context: 'analysis' } },
  Context: { schema: contextSchema },
  CellRun: { schema: cellRunSchema, example: { code: 'x = 20\nx + 1' } },
  CellEvent: { schema: cellEventSchema },
  Execution: { schema: executionSchema },
  File: { schema: fileSchema },
  FilePage: { schema: filePageSchema },
  FileMatch: { schema: fileMatchSchema },
  FileMatches: { schema: fileMatchesSchema },
  FileEvent: { schema: fileEventSchema },
  JobStart: { schema: jobBodySchema, example: { cmd: 'make -C /src test', timeout: 7_200 } },
  JobInfo: { schema: jobInfoSchema },
  JobDone: { schema: jobDoneSchema },
  Module: { schema: moduleSchema },
  ModulePage: { schema: modulePageSchema },
  GcStart: { schema: gcBodySchema, example: { dry_run: true } },
  GcAnswer: { schema: gcAnswerSchema },
  Image: {
    schema: imageSchema,
  },
  ImagePull: {
    schema: imagePullSchema,
  },
  ImagePush: {
    schema: imagePushSchema,
  },
  SandboxImage: {
    schema: sandboxImageSchema,
  },
  ModuleDetails: {
    schema: moduleDetailsSchema,
    example: {
      name: '200-tools',
      size_bytes: 4096,
      location: 'local',
      sha256: '0123456789abcdef'.repeat(4),
      built_at: '2026-11-23T00:00:00Z',
      builder: 'make',
      base: null,
      packages: ['tools=2'],
      provenance: {},
      architecture: 'x86_64',
      libc: 'glibc',
    },
  },
  ModuleManifest: {
    schema: moduleManifestSchema,
    example: {
      schema: 1,
      name: '200-tools',
      built_at: '2026-11-23T00:00:00Z',
      builder: 'make',
      base: null,
      packages: ['tools=2'],
      squashfs_sha256: '0123456789abcdef'.repeat(4),
    },
  },
  ModuleActivate: { schema: moduleActivateSchema, example: { module: '200-tools' } },
  SeedModule: { schema: moduleInfoSchema },
  ModuleNames: { schema: moduleNamesSchema },
  PolicyChange: {
    schema: policyShape,
    example: {
      allow: ['preset:pypi', { to: 'api.example.com', methods: ['GET'], paths: ['/v1'] }],
      deny: ['tracker.example.com'],
    },
  },
  Policy: { schema: policyAnswerSchema },
  SandboxPolicy: { schema: sandboxPolicySchema },
  PolicyTest: { schema: policyTestBodySchema, example: { to: 'https://api.example.com/v1/users' } },
  PolicyTestAnswer: { schema: policyTestAnswerSchema },
  RefusedPaths: { schema: refusedPathsSchema },
  RefusedPath: { schema: refusedPathSchema },
  PolicyLearnAnswer: { schema: policyLearnAnswerSchema },
  PolicyPreset: { schema: presetInfoSchema },
  EgressDecision: { schema: egressDecisionInfoSchema },
  EgressDecisions: { schema: egressDecisionsSchema },
  SandboxUsage: { schema: sandboxUsageSchema },
  Event: { schema: eventSchema },
  WebhookCreate: {
    schema: webhookCreateSchema,
    example: { url: 'https://hooks.example.com/squash', types: ['sandbox.created', 'sandbox.destroyed'] },
  },
  WebhookChange: { schema: webhookChangeSchema, example: { enabled: false } },
  Webhook: { schema: webhookSchema },
  WebhookMade: { schema: webhookMadeSchema },
  WebhookTest: { schema: webhookTestSchema },
  TierChange: {
    schema: tierBodySchema,
    example: {
      message: { own: 'allow', others: 'hold' },
      start: { own: 'allow', others: 'deny' },
      read: { own: 'allow', others: 'deny' },
      schedule: { own: 'allow', others: 'deny' },
      schedule_every_s_min: 900,
      create: 'deny',
      create_tiers: [],
      reach: ['api.example.com:443'],
      secrets: ['API_KEY'],
    },
  },
  Tier: { schema: tierSchema },
  GroupCreate: {
    schema: groupCreateSchema,
    example: { name: 'friends', tier: 'untrusted', command: ['/bin/sh', '-c', 'cat'] },
  },
  GroupChange: { schema: groupChangeSchema, example: { reach: ['api.example.com:443'] } },
  Group: { schema: groupSchema },
  GroupRun: { schema: runSchema },
  GroupAction: { schema: actionSchema },
  GroupActionDecision: { schema: actionDecisionSchema, example: { decision: 'allow' } },
  ChatCreate: {
    schema: chatCreateSchema,
    example: { name: 'friends-chat', group: 'family', trigger: '@agent' },
  },
  ChatChange: { schema: chatChangeSchema, example: { senders: ['alice', 'bob'] } },
  Chat: { schema: chatSchema },
  ChatMessage: {
    schema: messageBodySchema,
    example: { sender: 'alice', text: '@agent what is new?', id: 'm-1' },
  },
  ChatMessageTaken: { schema: messageTakenSchema },
  ChatSaid: { schema: outMessageSchema },
  ChatSaidPage: { schema: outPageSchema },
  ScheduleCreate: {
    schema: scheduleCreateSchema,
    example: {
      chat: 'family-chat',
      name: 'news',
      text: 'what is new?',
      cron: '0 7 * * mon-fri',
      time_zone: 'Europe/Berlin',
    },
  },
  ScheduleChange: { schema: scheduleChangeSchema, example: { paused: true } },
  Schedule: { schema: scheduleSchema },
  ScheduleRun: { schema: scheduleRunSchema },
  SecretChange: {
    schema: secretChangeSchema,
    example: { value: 'the key itself', allowed_hosts: ['api.example.com'] },
  },
  TicketCreate: {
    schema: ticketBodySchema,
    example: { path: '/v1/sandboxes/dev/processes/1/attach' },
  },
  Ticket: { schema: ticketSchema },
  Secret: { schema: secretInfoSchema },
  KeyCreate: {
    schema: keyBodySchema,
    example: { name: 'ci', owner: 'team-a', scope: 'exec', expires_at: '2030-01-31T12:00:00Z' },
  },
  KeyCreated: { schema: keyCreatedSchema },
  Key: { schema: keyInfoSchema },
  KeySelf: { schema: keySelfSchema },
  SshKeyCreate: {
    schema: sshKeyBodySchema,
    example: {
      name: 'laptop',
      owner: 'team-a',
      public_key: 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAINdamAGCsQq31Uv+08lkBzoO4XLz2qYjJa8CGmj3B1Ea',
    },
  },
  SshKey: { schema: sshKeySchema },
  SshLogin: { schema: sshLoginSchema },
  Owner: { schema: ownerInfoSchema },
  Bucket: { schema: bucketSchema },
  BucketObject: { schema: bucketObjectSchema },
  BucketList: { schema: bucketListSchema },
  Quota: { schema: quotaSchema },
  QuotaChange: { schema: quotaBodySchema, example: { sandboxes: 5, memory_mb: 8_192, execs: 20 } },
  QuotaUse: { schema: quotaUseSchema },
  AuditEntry: { schema: auditEntrySchema },
  Health: { schema: healthSchema },
  DaemonInfo: { schema: infoSchema },
  DaemonProblem: { schema: problemSchema },
  Capability: { schema: capabilitySchema },
  ExecStart: { schema: execStartSchema, example: { type: 'start', argv: ['bash', '-l'], cwd: '/root' } },
  ExecControl: { schema: execControlSchema },
  ExecEvent: { schema: execEventSchema },
  PortInfo: { schema: portInfoSchema },
  PortList: { schema: portListSchema },
  Port: { schema: portSchema },
  PortChange: { schema: portSetBodySchema, example: { access: 'public' } },
  PortLinkWish: { schema: portLinkBodySchema, example: { expires_s: 7_200 } },
  PortLink: { schema: portLinkSchema },
  TcpMessage: { schema: tcpMessageSchema },
  CallerEvent: { schema: callerEventSchema },
  CallerControl: {
    schema: callerControlSchema,
    example: { type: 'refuse', connection: '0123456789abcdef0123456789abcdef' },
  },
};

interface TextMessages {
  readonly client: readonly z.ZodType[];
  readonly server: readonly z.ZodType[];
}

/** Text messages of each subprotocol; binary ones carry bytes. */
export const webSocketMessages: Readonly<Record<string, TextMessages>> = {
  'squash.exec.v1': { client: [execStartSchema, execControlSchema], server: [execEventSchema] },
  'squash.process.v1': { client: [processControlSchema], server: [processEventSchema] },
  'squash.tcp.v1': { client: [tcpMessageSchema], server: [tcpMessageSchema] },
  'squash.caller.v1': { client: [callerControlSchema], server: [callerEventSchema] },
};

/** Done here and not where the schemas are: nobody but this document needs the names. */
export function nameShapes(): void {
  for (const [id, { schema, example }] of Object.entries(shapes)) {
    if (example !== undefined) schema.parse(example);
    const examples = example === undefined ? {} : { examples: [example] };
    z.globalRegistry.add(schema, { ...z.globalRegistry.get(schema), ...examples, id });
  }
}
