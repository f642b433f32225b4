/**
 * The guest kernel as text: one for all engines. The text is that of the functions beside this file, in one closure;
 * evaluated in a fresh realm it is a function that takes `emit` and returns `dispatch` (`boot.ts`).
 *
 * A function that is missing here is a ReferenceError in the guest, which the shared suite meets at its first row.
 */
import * as boot from './boot.ts';
import * as consoles from './console.ts';
import * as decode from './decode.ts';
import * as edition from './edition.ts';
import * as encode from './encode.ts';
import * as harden from './harden.ts';
import * as inspect from './inspect.ts';
import * as primordials from './primordials.ts';
import * as random from './random.ts';
import * as regExp from './reg-exp.ts';
import * as state from './state.ts';
import * as timers from './timers.ts';
import * as tools from './tools.ts';
import * as webAbort from './web/abort.ts';
import * as webClone from './web/clone.ts';
import * as webHost from './web/host.ts';
import * as webInstall from './web/install.ts';
import * as webPercent from './web/percent.ts';
import * as webText from './web/text.ts';
import * as webUrl from './web/url.ts';
import * as webUrlRecord from './web/url-record.ts';

const parts: readonly Readonly<Record<string, unknown>>[] = [
  regExp,
  primordials,
  edition,
  encode,
  decode,
  harden,
  inspect,
  random,
  state,
  timers,
  tools,
  consoles,
  webAbort,
  webClone,
  webHost,
  webInstall,
  webPercent,
  webText,
  webUrl,
  webUrlRecord,
  boot,
];

export const kernelSource = `(function () {
'use strict';
${parts
  .flatMap((part) => Object.values(part))
  .filter((member) => typeof member === 'function')
  .map(String)
  .join('\n')}
return bootKernel;
})()`;
