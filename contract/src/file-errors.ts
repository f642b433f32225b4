/** What stands behind a refused file operation: the part of the catalogue that is about files. */
export const fileErrorCatalog = {
  file_failed: {
    status: 400,
    retry: 'after-change',
    summary: 'A file operation inside the sandbox was refused',
    remedy: 'Mend what `detail` names inside the sandbox',
  },
  file_not_found: {
    status: 404,
    retry: 'after-change',
    summary: 'Nothing stands at this path in the sandbox',
    remedy: 'Look at the directory with file.list; `parents` makes directories that are missing',
  },
  file_exists: {
    status: 409,
    retry: 'never',
    summary: 'Something stands at this path in the sandbox',
    remedy: 'Choose another path, or remove what is there first',
  },
  directory_not_empty: {
    status: 409,
    retry: 'after-change',
    summary: 'The directory has something in it',
    remedy: 'Ask with `recursive`, or choose a path where nothing stands',
  },
  not_a_directory: {
    status: 409,
    retry: 'never',
    summary: 'A part of the path is no directory',
    remedy: 'Name a path whose parts are directories',
  },
  is_a_directory: {
    status: 409,
    retry: 'never',
    summary: 'A directory stands where a file is asked for',
    remedy: 'Name a file, or ask with `recursive`; file.pack reads a directory',
  },
  not_a_file: {
    status: 409,
    retry: 'never',
    summary: 'The path names a FIFO, a socket or a device, or the operation has no sense for what it names',
    remedy: 'Use a command for what is no regular file',
  },
  permission_denied: {
    status: 403,
    retry: 'after-change',
    summary: 'The sandbox does not allow this user to do that to the file',
    remedy: 'Ask as another user with `as`, or change mode or owner first',
  },
  path_invalid: {
    status: 400,
    retry: 'never',
    summary: 'The path is too long, goes in circles, or names what it can not',
    remedy: 'Name a shorter or straighter path',
  },
  file_busy: {
    status: 409,
    retry: 'later',
    summary: 'The file is in use: a program runs from it, or something is mounted there',
    remedy: 'End what uses it, or write to another path',
  },
  precondition_failed: {
    status: 412,
    retry: 'after-change',
    summary: 'The file is not in the state that the request names',
    remedy: 'Look at the file again and decide anew',
  },
  range_not_satisfiable: {
    status: 416,
    retry: 'never',
    summary: 'The range begins behind the end of the file',
    remedy: 'Ask for a range within what `content-range` says',
  },
  archive_invalid: {
    status: 422,
    retry: 'never',
    summary: 'The body is no tar, has what is not unpacked, or leads out of the directory',
    remedy:
      'Send a tar of files, directories and links with relative names, within the bounds of the request',
  },
  sandbox_full: {
    status: 507,
    retry: 'after-change',
    summary: 'The sandbox has no room for more files',
    remedy: 'Remove files in the sandbox',
  },
} as const;
