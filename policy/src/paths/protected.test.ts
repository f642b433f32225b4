/** Names that no box brings home by itself. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { heldBack } from './protected.ts';

test('what programs of the host obey without being told is held back, at any depth and however it is written', () => {
  const held = `.git/config sub/.GIT/hooks/x .gi\u200bt/x .hg/hgrc deep/.jj/repo .dir-locals-2.el opencode.jsonc AGENTS.override.md
    .agents/skills/x .github/copilot-instructions.md .github/instructions/x.instructions.md .github/hooks/x.json .clinerules/a.md
    .roo/rules/x .roorules-code .kiro/steering/x.md .continue/config.yaml QWEN.md .crush.json .gitea/workflows/ci.yml
    .forgejo/workflows/ci.yml .woodpecker/a.yml bitbucket-pipelines.yml azure-pipelines.yaml .Rprofile .ghci .pdbrc .irbrc
    .bundle/config .mvn/jvm.config .pnp.cjs .bazelrc gradle/wrapper/gradle-wrapper.properties hie.yaml .envrc`;
  for (const path of held.split(/\s+/)) assert.ok(heldBack(path), path);
  const free = `src/agents/x.ts agents.ts github/workflows/x.yml docs/instructions/a.md config prompts/x hooks/x .github/dependabot.yml
    rules/x build.yml src/plugin/x continue.md hg/x mvn/x`;
  for (const path of free.split(/\s+/)) assert.equal(heldBack(path), undefined, path);
});
