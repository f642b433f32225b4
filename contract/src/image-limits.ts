/** The rows of limits.ts about OCI images, and the bound that they have in common with other layers. */
export const imageLimits = {
  /** Bytes of one unpacked layer: four times the largest upload; an image of a kilobyte can announce an exabyte. */
  layerBytesMax: 68_719_476_736,
  /** Entries of one layer of an image: their names are in memory while it is taken in, some hundred bytes each. */
  imageEntriesMax: 1_000_000,
  /** Names, link targets and attributes of one layer together. */
  imageTextBytesMax: 134_217_728,
  /** Memory of the thread that takes a layer in, in MiB: twice what the bounds above need. */
  imageThreadMbMax: 1_536,
  /** Layers of an image that stay layers; a deeper one's lowest are merged. It leaves room for modules. */
  imageLayersMax: 24,
  /** Of one image: more than any engine stacks. */
  imageLayersReadMax: 512,
  imageManifestBytesMax: 4_194_304,
  /** Images that are kept; each is a small file. */
  imagesMax: 1_000,
  /** Pulls and imports at once, of all callers; each unpacks two layers at a time. */
  imagePullsAtOnceMax: 4,
  imageLayersAtOnceMax: 2,
  /** How long an answer may wait for a pull. */
  imageWaitMsMax: 30_000,
  /** A pull that nobody has asked for so long ends. */
  imageForgottenMs: 30_000,
  /** Of one pull, whoever waits for it: a registry that sends a byte now and then holds one of their places. */
  imagePullMsMax: 21_600_000,
  /** What the daemon leaves free on the disk while it takes an image in. */
  imageFreeBytesMin: 134_217_728,
} as const;
