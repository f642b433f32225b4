/**
 * The first import of each face of the package: on an older Node everything behind it fails in words that say nothing. It must itself be readable
 * there, as must whatever is linked with it: so nothing imports by name what an older `node:` module lacks.
 */
const nodeMajorMin = 24;

if (Number(process.versions.node.split('.')[0]) < nodeMajorMin)
  throw new Error(
    `@squash/codemode needs Node ${nodeMajorMin} or later, and this is Node ${process.version}`,
  );
