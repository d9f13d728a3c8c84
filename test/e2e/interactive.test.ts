import { mkdirSync, readdirSync } from 'node:fs';
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
    expect(chat.stderr()).toBe('');
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

describe('stator local with an input that has ended', () => {
  it.each([['--interactive'], ['--interactive', '--planner'], ['--interactive', '--planner', '--num-workers=2']])(
    'answers what was asked and ends by itself: %s %s %s',
    async (...flags) => {
      const chat = fleet.spawn(['local', '--speedup-ratio=100', ...flags]);
      chat.write('What are you?\n');
      chat.endInput();
      expect(await chat.exited).toBe(0);
      expect(words(chat.stdout()).length).toBeGreaterThan(20);
      expect(words(builtinText())).toContain(words(chat.stdout()));
    },
  );

  it.each([['--planner'], ['--interactive', '--planner'], ['--num-workers=1']])(
    'ends on one SIGTERM: %s %s',
    async (...flags) => {
      const local = fleet.spawn(['local', '--http-port=0', ...SLOW, ...flags]);
      if (!flags.includes('--interactive')) local.endInput();
      const workers = await waitUntil(() => {
        const pids = childPids(local.pid);
        return pids.length > 0 && pids;
      });
      local.signal('SIGTERM');
      expect(await local.exited).toBe(0);
      expect(workers.filter(isRunning)).toEqual([]);
    },
  );
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
