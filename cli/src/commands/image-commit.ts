/** `squash image commit`: an image of what a sandbox is. */
import type { Image } from '@squash/contract/image';
import type { Flags } from '../arguments.ts';
import type { Call } from '../command.ts';
import { exitCodes, usageFailure } from '../failure.ts';
import { imagesPath } from '../images.ts';
import { labelsOf } from '../label-words.ts';
import { printJson, printLine, visible } from '../output/print.ts';
import { whileTold } from '../output/progress.ts';
import { readEnvironment } from './exec-options.ts';

export async function run({ client, positionals, flags, json }: Call): Promise<number> {
  const [sandbox, name] = positionals;
  const wish = {
    sandbox,
    name,
    snapshot: flags.text('snapshot'),
    changes: {
      ...(flags.isSet('env') && { env: readEnvironment(flags) }),
      ...(flags.isSet('label') && { labels: labelsOf(flags) }),
      user: flags.text('user'),
      workdir: flags.text('workdir'),
      entrypoint: words(flags, 'entrypoint'),
      cmd: words(flags, 'cmd'),
    },
  };
  const image = await whileTold(`making an image of ${sandbox}`, { json }, () =>
    client.post<Image>(`${imagesPath}/commit`, wish),
  );
  if (json) printJson(image);
  else printLine(visible(image.name));
  return exitCodes.ok;
}

/** As in a Dockerfile's form that no shell reads. */
function words(flags: Flags, name: 'entrypoint' | 'cmd'): readonly string[] | undefined {
  const text = flags.text(name);
  if (text === undefined) return undefined;
  try {
    const parsed: unknown = JSON.parse(text);
    if (Array.isArray(parsed) && parsed.every((each) => typeof each === 'string')) return parsed;
  } catch {
    // Said below.
  }
  throw usageFailure(`--${name} takes a list of words in JSON, such as '["sh", "-c", "…"]', not '${text}'`);
}
