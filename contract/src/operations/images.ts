/** The operations on OCI images, which sandboxes are made from instead of modules. */
import { z } from 'zod';
import {
  imageCommitSchema,
  imageFlattenSchema,
  imagePullBodySchema,
  imagePullSchema,
  imagePushBodySchema,
  imagePushSchema,
  imageSchema,
} from '../image.ts';
import { imageReferenceSchema } from '../image-reference.ts';
import { moduleDetailsSchema } from '../module.ts';
import { defineOperation, type Operations } from './operation.ts';
import { pageShape, queryFlag } from './query.ts';

const imageParams = z.strictObject({
  image: imageReferenceSchema.describe(
    'a name, with each `/` as `%2F`; the defaults of container tools hold',
  ),
});

const makingErrors = [
  'image_invalid',
  'image_unsupported',
  'stream_limit',
  'disk_full',
  'layer_corrupt',
  'launch_failed',
  'launcher_unavailable',
] as const;

/** Of what is made of layers that are here. */
const leavingErrors = [
  'image_unsupported',
  'module_not_found',
  'stream_limit',
  'disk_full',
  'layer_corrupt',
  'snapshot_path_too_long',
  'bucket_unavailable',
  'launch_failed',
  'launcher_unavailable',
] as const;

const imagePull = defineOperation({
  id: 'image.pull',
  method: 'POST',
  path: '/v1/images',
  dialect: 'native',
  summary: 'Have an image here, from its registry if need be',
  description:
    'Answers when it is here or `wait_ms` is over; the pull goes on for a while, and whoever asks again joins it. Nobody who asks for 30 seconds ends it.',
  body: imagePullBodySchema,
  answers: [{ status: 200, description: 'How far it is', schema: imagePullSchema }],
  errors: [
    'image_not_found',
    'registry_unavailable',
    'registry_denied',
    'registry_credentials_unreadable',
    ...makingErrors,
  ],
  permission: 'admin',
  example: { body: { reference: 'python:3.12-slim' } },
});

const imageList = defineOperation({
  id: 'image.list',
  method: 'GET',
  path: '/v1/images',
  dialect: 'native',
  summary: 'The images that are here, sorted by name',
  query: z.strictObject({
    ...pageShape,
    all: queryFlag('all').describe('with the steps of builds, whose names begin with `squash.build/`'),
  }),
  answers: [
    {
      status: 200,
      description: 'A page',
      schema: z.strictObject({ items: z.array(imageSchema), next: z.string().nullable() }),
    },
  ],
  errors: [],
  permission: 'read',
});

const imageGet = defineOperation({
  id: 'image.get',
  method: 'GET',
  path: '/v1/images/{image}',
  dialect: 'native',
  summary: 'Look at one image',
  params: imageParams,
  answers: [{ status: 200, description: 'The image', schema: imageSchema }],
  errors: ['image_not_found'],
  permission: 'read',
  example: { params: { image: 'python:3.12-slim' } },
});

const imageImport = defineOperation({
  id: 'image.import',
  method: 'PUT',
  path: '/v1/images',
  dialect: 'native',
  summary: 'Store an image from a file: a docker-archive or an OCI layout as a tar',
  description:
    'As `podman save`, `docker save` and `skopeo copy … docker-archive:` or `oci-archive:` write it. The same image under the same name again changes nothing.',
  query: z.strictObject({
    name: imageReferenceSchema.optional().describe('what it is to be called; none: as the archive calls it'),
    pick: z
      .string()
      .max(512)
      .optional()
      .describe('of several images in the archive, the one of this tag or name'),
  }),
  upload: { contentType: 'application/octet-stream', description: 'A tar file' },
  answers: [{ status: 200, description: 'The image', schema: imageSchema }],
  errors: makingErrors,
  permission: 'admin',
  example: { file: 'image.tar' },
});

const imageCommit = defineOperation({
  id: 'image.commit',
  method: 'POST',
  path: '/v1/images/commit',
  dialect: 'native',
  summary: 'Make an image of a sandbox, or of a snapshot of it',
  description:
    'The layers of the image or the modules that the sandbox was made of, and what was written as one more; where nothing was, none. The sandbox stands still while its files are read.',
  body: imageCommitSchema,
  answers: [{ status: 200, description: 'The image', schema: imageSchema }],
  errors: [
    'sandbox_not_found',
    'host_root_unsupported',
    'vm_unsupported',
    'sandbox_busy',
    'sandbox_not_ready',
    'snapshot_exists',
    'snapshot_not_found',
    'snapshot_path_too_long',
    'module_not_found',
    'quota_exceeded',
    'bucket_unavailable',
    ...makingErrors,
  ],
  permission: 'admin',
  example: { body: { sandbox: 'dev', name: 'tools:2', changes: { cmd: ['bash'] } } },
});

const imagePush = defineOperation({
  id: 'image.push',
  method: 'POST',
  path: '/v1/images/{image}/push',
  dialect: 'native',
  summary: 'Send an image to a registry, as any engine pulls it',
  description:
    'Its layers become tars in gzip again, the same each time; what the registry has is not sent. Answers when it is there or `wait_ms` is over; the push goes on for a while, and whoever asks again joins it. Nobody who asks for 30 seconds ends it.',
  params: imageParams,
  body: imagePushBodySchema,
  answers: [{ status: 200, description: 'How far it is', schema: imagePushSchema }],
  errors: [
    'image_not_found',
    'registry_unavailable',
    'registry_denied',
    'registry_credentials_unreadable',
    ...leavingErrors,
  ],
  permission: 'admin',
  example: {
    params: { image: 'python:3.12-slim' },
    body: { destination: 'registry.example.com/python:3.12-slim' },
  },
});

const imageExport = defineOperation({
  id: 'image.export',
  method: 'GET',
  path: '/v1/images/{image}/file',
  dialect: 'native',
  summary: 'An image as one tar: an OCI layout that is a docker-archive as well',
  description:
    'As `podman load`, `docker load` and `skopeo copy oci-archive:` read it. It is made first, which takes a while.',
  params: imageParams,
  answers: [{ status: 200, description: 'The file', contentType: 'application/octet-stream' }],
  errors: ['image_not_found', ...leavingErrors],
  permission: 'admin',
  example: { params: { image: 'python:3.12-slim' }, file: 'image.tar' },
});

const imageFlatten = defineOperation({
  id: 'image.flatten',
  method: 'POST',
  path: '/v1/images/{image}/module',
  dialect: 'native',
  summary: 'Make one module of an image: its layers merged, what is deleted in them left out',
  params: imageParams,
  body: imageFlattenSchema,
  answers: [{ status: 200, description: 'The module', schema: moduleDetailsSchema }],
  errors: ['image_not_found', 'module_exists', 'module_invalid', ...leavingErrors],
  permission: 'admin',
  example: { params: { image: 'python:3.12-slim' }, body: { module: '300-python' } },
});

const imageRemove = defineOperation({
  id: 'image.remove',
  method: 'DELETE',
  path: '/v1/images/{image}',
  dialect: 'native',
  summary: 'Remove an image; sandboxes that were made from it keep its layers',
  params: imageParams,
  answers: [{ status: 204, description: 'It is gone, and so are the layers that nothing else needs' }],
  errors: ['image_not_found'],
  permission: 'admin',
  example: { params: { image: 'python:3.12-slim' } },
});

export const imageOperations = {
  'image.pull': imagePull,
  'image.list': imageList,
  'image.get': imageGet,
  'image.import': imageImport,
  'image.commit': imageCommit,
  'image.push': imagePush,
  'image.export': imageExport,
  'image.flatten': imageFlatten,
  'image.remove': imageRemove,
} as const satisfies Operations;
