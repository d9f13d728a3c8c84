import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { builtinText } from '../../shared/artifacts/index.ts';
import { childPids, isRunning, type SpawnedProcess, useFleet, waitUntil } from '../support/index.ts';

const fleet = useFleet();
/** Some seconds for an answer. */
const SLOW = ['--speedup-ratio=0.1'];

/** The words of the built-in text, in which line breaks are spaces like others. */
function words(text: string): string {
  return text.trim().replace(/\s+/g, ' ');
}

async function untilAnswered(chat: SpawnedProcess, answers: number): Promise<string[]> {
  const lines = () => chat.stdout().split('\n').slice(0, -1);
  await waitUntil(() => lines().length >= answers, { timeoutMs: 20_000, what: `${answers} answers` });
  return lines();
}

/** Returns the text without the lines that a slow machine adds while its workers start. */
function withoutWaiting(text: string): string {
  return text.replace(/^stator: waiting for workers: .*\n/gm, '');
}

describe('stator local --interactive', () => {
  it('chats through a pipe, serves no port, says nothing else, and leaves with the input', async () => {
    const chat = fleet.spawn(['local', '-i', '--num-workers=1', '--speedup-ratio=100']);
    chat.write('What are you?\n');
    await untilAnswered(chat, 1);
    const workers = childPids(chat.pid);
    chat.write('And why?\n');
    const answers = await untilAnswered(chat, 2);
    chat.endInput();
    expect(await chat.exited).toBe(0);
    for (const answer of answers) expect(words(builtinText())).toContain(words(answer));
    expect(answers[0]).not.toBe(answers[1]);
    expect(withoutWaiting(chat.stderr())).toBe('');
    expect(workers).toHaveLength(1);
    expect(workers.filter(isRunning)).toEqual([]);
  });

  it('needs no key for its own chat where clients need one', async () => {
    const keys = ['--auth=on', `--keys-file=${join(fleet.temporary, 'no-keys.json')}`];
    const chat = fleet.spawn(['local', '-i', '--num-workers=1', '--speedup-ratio=100', ...keys]);
    chat.write('What are you?\n');
    const [answer = ''] = await untilAnswered(chat, 1);
    chat.endInput();
    expect(await chat.exited).toBe(0);
    expect(words(builtinText())).toContain(words(answer));
  });

  it('cancels the answer that runs on SIGINT, goes on, and ends on SIGTERM', async () => {
    const chat = fleet.spawn(['local', '--interactive', '--num-workers=1', ...SLOW]);
    chat.write('What are you?\n');
    await waitUntil(() => chat.stdout().length > 5, { timeoutMs: 20_000, what: 'the beginning of an answer' });
    chat.signal('SIGINT');
    const [cancelled] = await untilAnswered(chat, 1);
    expect(cancelled).toMatch(/ \(cancelled\)$/);
    chat.write('Again?\n');
    const known = chat.stdout().length;
    await waitUntil(() => chat.stdout().length > known, { timeoutMs: 20_000, what: 'another answer' });
    const workers = childPids(chat.pid);
    chat.signal('SIGTERM');
    expect(await chat.exited).toBe(0);
    expect(workers.filter(isRunning)).toEqual([]);
  });
});

/** How a shell starts a command with an input in which nothing more will come. */
const INPUTS = {
  'a closed input': 'exec "$NODE" "$@" <&-',
  '/dev/null': 'exec "$NODE" "$@" </dev/null',
  'an empty pipe': 'true | "$NODE" "$@"',
  'a pipe with a question': 'echo "What are you?" | "$NODE" "$@"',
  'a pipe with a question without a line break': 'printf "What are you?" | "$NODE" "$@"',
  'a pipe with blank lines and /quit': 'printf "\\n\\n/quit\\n" | "$NODE" "$@"',
} as const;
const MODES = [[], ['--planner']] as const; // two workers, and one to begin with

describe('stator local with an input that has ended', () => {
  function localWith(input: keyof typeof INPUTS, flags: readonly string[]): SpawnedProcess {
    const shell = join(fleet.temporary, `${Object.keys(INPUTS).indexOf(input)}.sh`);
    writeFileSync(shell, `#!/bin/sh\n${INPUTS[input]}\n`, { mode: 0o755 });
    const own = ['local', '--http-port=0', '--speedup-ratio=100', ...flags];
    return fleet.spawn(own, { NODE: process.execPath }, { node: shell });
  }

  const combinations = Object.keys(INPUTS).flatMap((input) =>
    MODES.map((flags) => [input as keyof typeof INPUTS, flags] as const),
  );

  it.each(combinations)('chats to its end and exits with 0: %s, %j', { timeout: 60_000 }, async (input, flags) => {
    const chat = localWith(input, ['--interactive', ...flags]);
    expect(await chat.exited).toBe(0);
    expect(withoutWaiting(chat.stderr())).toBe('');
    const answer = words(chat.stdout());
    if (input.includes('question')) expect(answer.length).toBeGreaterThan(20);
    else expect(answer).toBe('');
    expect(words(builtinText())).toContain(answer);
  });

  // A server needs no input: that it ends says nothing of how long clients want it.
  it.each(combinations.filter(([input]) => !input.includes('pipe')))(
    'serves on without a chat, and ends on one SIGTERM: %s, %j',
    { timeout: 60_000 },
    async (input, flags) => {
      const local = localWith(input, flags);
      const [, url = ''] = await local.waitForOutput(/endpoint: (\S+)\n/, 30_000);
      expect((await fetch(`${url}/models`)).status).toBe(200);
      const workers = childPids(local.pid);
      expect(workers.length).toBeGreaterThan(0);
      local.signal('SIGTERM');
      expect(await local.exited).toBe(0);
      expect(workers.filter(isRunning)).toEqual([]);
    },
  );

  it.each(MODES.flatMap((flags) => [flags, ['--interactive', ...flags]]).map((flags) => [flags] as const))(
    'ends on one SIGTERM while it starts: %j',
    { timeout: 60_000 },
    async (flags) => {
      const local = localWith('/dev/null', [...flags, ...SLOW]);
      if (flags[0] !== '--interactive') await waitUntil(() => childPids(local.pid).length > 0, { timeoutMs: 20_000 });
      const workers = childPids(local.pid);
      local.signal('SIGTERM');
      const code = await local.exited;
      expect([0, null]).toContain(code); // null: before it could listen to signals
      expect(workers.filter(isRunning)).toEqual([]);
    },
  );

  it.each([[['--planner']], [[]]])('ends an open chat on one SIGTERM: %j', { timeout: 60_000 }, async (flags) => {
    const chat = fleet.spawn(['local', '--interactive', ...SLOW, ...flags]);
    chat.write('What are you?\n');
    await waitUntil(() => chat.stdout().length > 5, { timeoutMs: 20_000, what: 'the beginning of an answer' });
    const workers = childPids(chat.pid);
    chat.signal('SIGTERM');
    expect(await chat.exited).toBe(0);
    expect(workers.filter(isRunning)).toEqual([]);
  });
});

describe('stator local --interactive, left while its workers start', () => {
  it('exits with 0 on SIGINT and leaves no process and no folder behind', async () => {
    const temporary = join(fleet.temporary, 'left');
    mkdirSync(temporary);
    const chat = fleet.spawn(['local', '-i', '--num-workers=1'], { TMPDIR: temporary });
    const workers = await waitUntil(() => {
      const pids = childPids(chat.pid);
      return pids.length === 1 && pids;
    });
    chat.signal('SIGINT');
    expect(await chat.exited).toBe(0);
    expect(workers.filter(isRunning)).toEqual([]);
    expect(readdirSync(temporary)).toEqual([]);
  });
});

describe('stator frontend --interactive', () => {
  it('chats with the workers that there are', async () => {
    await fleet.worker(['--speedup-ratio=100']);
    const chat = fleet.spawn(['frontend', '-i', '--discovery-backend=file'], { DYN_FILE_KV: fleet.fileKv });
    chat.write('What are you?\n');
    chat.endInput();
    expect(await chat.exited).toBe(0);
    expect(words(builtinText())).toContain(words(chat.stdout()));
    expect(chat.stdout().length).toBeGreaterThan(20);
  });

  it('waits for a worker, and leaves before there is one when told to', async () => {
    const env = { DYN_FILE_KV: `${fleet.fileKv}-empty` };
    const chat = fleet.spawn(['frontend', '-i', '--discovery-backend=file'], env);
    await chat.waitForOutput(/Waiting for a worker/);
    chat.signal('SIGINT');
    expect(await chat.exited).toBe(0);
  });
});
