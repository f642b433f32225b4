/**
 * Coding agents that `squash box agent` knows: how each is told what to do and that it need not ask, where its model is, and which variable
 * has its key. docs/local-run.md has the same, in words.
 */

export interface AgentKey {
  readonly variable: string;
  readonly host: string;
  /** Of `squash policy presets`. */
  readonly preset: string;
}

export interface Agent {
  readonly name: string;
  /** What makes it ask nothing: the box around it is the wall. */
  readonly unasked: readonly string[];
  readonly model: string;
  /** With a terminal somebody goes on talking to it; without one it does what it was told and ends. */
  readonly prompt: (text: string, hasTerminal: boolean) => readonly string[];
  /** Variables of it, where the options are not enough. */
  readonly env?: Readonly<Record<string, string>>;
  /** The first whose variable is set, else the first. */
  readonly keys: readonly [AgentKey, ...AgentKey[]];
  /** Logins, below the home: hidden where a key goes in. */
  readonly logins: readonly string[];
  /** What it keeps elsewhere than the settings that every box has. */
  readonly state: readonly string[];
}

const anthropic: AgentKey = {
  variable: 'ANTHROPIC_API_KEY',
  host: 'api.anthropic.com',
  preset: 'preset:anthropic',
};
const openai: AgentKey = { variable: 'OPENAI_API_KEY', host: 'api.openai.com', preset: 'preset:openai' };
const google: AgentKey = {
  variable: 'GEMINI_API_KEY',
  host: 'generativelanguage.googleapis.com',
  preset: 'preset:google',
};

export const agents: readonly Agent[] = [
  {
    name: 'claude',
    unasked: ['--dangerously-skip-permissions'],
    model: '--model',
    prompt: (text, hasTerminal) => (hasTerminal ? [text] : ['--print', text]),
    keys: [anthropic],
    logins: ['.claude/.credentials.json'],
    state: [],
  },
  {
    name: 'codex',
    unasked: ['--dangerously-bypass-approvals-and-sandbox'],
    model: '--model',
    prompt: (text, hasTerminal) => (hasTerminal ? [text] : ['exec', text]),
    keys: [openai],
    logins: ['.codex/auth.json'],
    state: [],
  },
  {
    name: 'gemini',
    unasked: ['--yolo'],
    // Of a directory that it does not know it asks, or ends; an option for it came later than the variable, and older ones end at that.
    env: { GEMINI_CLI_TRUST_WORKSPACE: 'true' },
    model: '--model',
    prompt: (text, hasTerminal) => [hasTerminal ? '--prompt-interactive' : '--prompt', text],
    keys: [google],
    logins: ['.gemini/oauth_creds.json'],
    state: [],
  },
  {
    name: 'opencode',
    unasked: [],
    model: '--model',
    prompt: (text, hasTerminal) => (hasTerminal ? ['--prompt', text] : ['run', text]),
    keys: [anthropic, openai, google],
    logins: ['.local/share/opencode/auth.json'],
    state: ['.local/share/opencode'],
  },
  {
    name: 'aider',
    unasked: ['--yes-always'],
    model: '--model',
    prompt: (text) => ['--message', text],
    keys: [openai, anthropic, google],
    logins: [],
    state: [],
  },
];

export interface AgentWish {
  readonly prompt: string | undefined;
  readonly model: string | undefined;
  readonly hasTerminal: boolean;
}

/** Options stand behind the word that says what is done, where there is one. */
export function agentWords(agent: Agent, { prompt, model, hasTerminal }: AgentWish): readonly string[] {
  const options = [...agent.unasked, ...(model === undefined ? [] : [agent.model, model])];
  const said = prompt === undefined ? [] : agent.prompt(prompt, hasTerminal);
  const [verb] = said;
  const hasVerb = said.length > 1 && verb?.startsWith('-') === false;
  return hasVerb ? [agent.name, verb, ...options, ...said.slice(1)] : [agent.name, ...options, ...said];
}
