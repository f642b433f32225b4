"""Prints what lies in a directory, one line of JSON for each name in order: all that an archive of it has to keep."""
import hashlib, json, os, stat, sys

first_id = int(sys.argv[2]) if len(sys.argv) > 2 else 0
root = os.fsencode(sys.argv[1])
names = {}


def attributes(path):
    names_of = sorted(os.listxattr(path, follow_symlinks=False))
    return {name: os.getxattr(path, name, follow_symlinks=False).hex() for name in names_of if name.startswith("user.")}


def tell(path, shown):
    at = os.lstat(path)
    told = {
        "path": shown.decode("latin-1"),
        "mode": oct(at.st_mode),
        "owner": [at.st_uid - first_id, at.st_gid - first_id],
        "mtime": at.st_mtime_ns,
        "attributes": attributes(path),
    }
    if stat.S_ISREG(at.st_mode):
        with open(path, "rb") as file:
            told["content"] = [at.st_size, hashlib.file_digest(file, "sha256").hexdigest()]
    if stat.S_ISLNK(at.st_mode):
        told["target"] = os.readlink(path).decode("latin-1")
    if stat.S_ISCHR(at.st_mode) or stat.S_ISBLK(at.st_mode):
        told["device"] = [os.major(at.st_rdev), os.minor(at.st_rdev)]
    is_deleted = stat.S_ISCHR(at.st_mode) and at.st_rdev == 0
    if not stat.S_ISDIR(at.st_mode) and not is_deleted and at.st_nlink > 1:
        told["same_as"] = names.setdefault(at.st_ino, shown.decode("latin-1"))
    if not stat.S_ISSOCK(at.st_mode):
        print(json.dumps(told, sort_keys=True))
    if stat.S_ISDIR(at.st_mode):
        for name in sorted(os.listdir(path)):
            tell(os.path.join(path, name), os.path.join(shown, name))


tell(root, b"")
