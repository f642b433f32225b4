#!/usr/bin/env node
/** The command `srt`, for programs that call Anthropic's Sandbox Runtime by this name: `squash srt` in the same built program. */
'use strict';
process.argv.splice(2, 0, 'srt');
require('./squash.cjs');
