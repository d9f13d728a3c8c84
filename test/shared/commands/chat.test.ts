import { PassThrough } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { type Chat, type ChatMessage, type ChatPiece, chatInTerminal } from '../../../shared/commands/chat.ts';
import { waitUntil } from '../../support/index.ts';

const CTRL_C = '\u0003';
const CTRL_D = '\u0004';
const ESCAPE = '\u001b[';

interface Bed {
  /** What each question was asked with. */
  readonly asked: (readonly ChatMessage[])[];
  /** Pieces of the answer under way; undefined ends it. */
  say(piece: ChatPiece | Error | undefined): Promise<void>;
  type(text: string): void;
  text(): string;
  interrupt(): void;
  readonly ending: AbortController;
  readonly input: PassThrough;
  readonly over: Promise<void>;
}

function openChat({ isTTY, isPlain = false }: { readonly isTTY: boolean; readonly isPlain?: boolean }): Bed {
  const input = Object.assign(new PassThrough(), { isTTY });
  const output = Object.assign(new PassThrough(), { isTTY });
  let written = '';
  output.setEncoding('utf8').on('data', (text: string) => {
    written += text;
  });
  const asked: (readonly ChatMessage[])[] = [];
  let give: ((piece: ChatPiece | Error | undefined) => void) | undefined;
  const chat: Chat = async function* (messages, signal) {
    asked.push(messages);
    for (;;) {
      const piece = await new Promise<ChatPiece | Error | undefined>((resolve) => {
        give = resolve;
        signal.addEventListener('abort', () => resolve(undefined), { once: true });
      });
      give = undefined;
      if (piece instanceof Error) throw piece;
      if (piece === undefined) return;
      yield piece;
    }
  };
  const ending = new AbortController();
  let interrupt = (): void => {};
  const onInterrupt = (listener: () => void) => {
    interrupt = listener;
    return () => {
      interrupt = () => {};
    };
  };
  const over = chatInTerminal(chat, 'm', { input, output, signal: ending.signal, onInterrupt, isPlain });
  return {
    asked,
    ending,
    input,
    over,
    text: () => written,
    type: (text) => void input.write(text),
    interrupt: () => interrupt(),
    async say(piece) {
      await waitUntil(() => give !== undefined, { what: 'somebody who waits for the answer' });
      give?.(piece);
    },
  };
}

function answer(text: string): ChatPiece {
  return { kind: 'answer', text };
}

describe('a chat through a pipe', () => {
  it('writes answers alone, and ends with the input', async () => {
    const bed = openChat({ isTTY: false });
    bed.type('one\n\ntwo\n');
    bed.input.end();
    await bed.say({ kind: 'thought', text: 'hm' });
    await bed.say(answer('first '));
    await bed.say(answer('answer'));
    await bed.say(undefined);
    await bed.say(answer('second'));
    await bed.say(undefined);
    await bed.over;
    expect(bed.text()).toBe('first answer\nsecond\n');
  });

  it('sends what was said before along', async () => {
    const bed = openChat({ isTTY: false });
    bed.type('one\n');
    await bed.say(answer('yes'));
    await bed.say(undefined);
    bed.type('two\n');
    await waitUntil(() => bed.asked.length === 2);
    expect(bed.asked[1]).toEqual([
      { role: 'user', content: 'one' },
      { role: 'assistant', content: 'yes' },
      { role: 'user', content: 'two' },
    ]);
    bed.ending.abort();
    await bed.over;
  });

  it('says why there is no answer, and forgets the question', async () => {
    const bed = openChat({ isTTY: false });
    bed.type('one\n');
    await bed.say(new Error('no worker'));
    bed.type('two\n');
    await waitUntil(() => bed.asked.length === 2);
    expect(bed.text()).toBe('error: no worker\n');
    expect(bed.asked[1]).toEqual([{ role: 'user', content: 'two' }]);
    bed.ending.abort();
    await bed.over;
  });

  it('cancels an answer when interrupted, and ends when interrupted between answers', async () => {
    const bed = openChat({ isTTY: false });
    bed.type('one\n');
    await bed.say(answer('half'));
    await waitUntil(() => bed.text() === 'half');
    bed.interrupt();
    await waitUntil(() => bed.text().endsWith('\n'));
    expect(bed.text()).toBe('half (cancelled)\n');
    bed.interrupt();
    await bed.over;
  });
});

describe.each([true, false])('the commands of a chat (in a terminal: %s)', (isTTY) => {
  it.each(['/quit', '/exit', '/bye', '/q', '  /QUIT '])(
    '%s leaves, and no model gets it as a question',
    async (command) => {
      const bed = openChat({ isTTY });
      bed.type(`${command}\r\n`);
      await bed.over;
      expect(bed.asked).toEqual([]);
    },
  );

  it('are single words: a line that only begins with one is a question', async () => {
    const bed = openChat({ isTTY });
    bed.type('/etc/hosts is what?\r\n');
    await bed.say(answer('a file'));
    await bed.say(undefined);
    bed.type('/quit now?\r\n');
    await waitUntil(() => bed.asked.length === 2);
    bed.ending.abort();
    await bed.over;
  });
});

describe('a chat in a terminal', () => {
  it('says what keys and commands do, also for an unknown command', async () => {
    const bed = openChat({ isTTY: true });
    bed.type('/help\r');
    await waitUntil(() => bed.text().includes('every other line is a question'));
    bed.type('/frobnicate\r');
    await waitUntil(() => bed.text().includes('/frobnicate is not a command. Ctrl-C cancels'));
    expect(bed.asked).toEqual([]);
    bed.type(CTRL_D);
    await bed.over;
  });

  it('cancels with Ctrl-C, goes on, and leaves with Ctrl-D', async () => {
    const bed = openChat({ isTTY: true });
    await waitUntil(() => bed.text().includes('Chat with m.'));
    bed.type('one\r');
    await bed.say(answer('half'));
    await waitUntil(() => bed.text().includes('half'));
    bed.type(CTRL_C);
    await waitUntil(() => bed.text().includes('half (cancelled)'));
    bed.type(CTRL_C);
    await waitUntil(() => bed.text().includes('(Ctrl-D or /quit leaves)'));
    bed.type('two\r');
    await waitUntil(() => bed.asked.length === 2);
    expect(bed.asked[1]).toHaveLength(3); // what was cancelled was said all the same
    await bed.say(undefined);
    bed.type(CTRL_D);
    await bed.over;
  });

  it('brings back an earlier line with the arrow key', async () => {
    const bed = openChat({ isTTY: true });
    bed.type('one\r');
    await bed.say(answer('yes'));
    await bed.say(undefined);
    bed.type(`${ESCAPE}A\r`);
    await waitUntil(() => bed.asked.length === 2);
    expect(bed.asked[1]?.at(-1)).toEqual({ role: 'user', content: 'one' });
    bed.type(CTRL_D);
    await bed.over;
  });

  it.each([
    [false, '\u001b[2mhm\u001b[0m'],
    [true, 'hm'],
  ])('shows thoughts, painted unless the chat must be plain (%s)', async (isPlain, expected) => {
    const bed = openChat({ isTTY: true, isPlain });
    bed.type('one\r');
    await bed.say({ kind: 'thought', text: 'hm' });
    await waitUntil(() => bed.text().includes('hm'));
    expect(bed.text()).toContain(expected);
    expect(bed.text().includes('\u001b[2m')).toBe(!isPlain);
    bed.ending.abort();
    await bed.over;
  });
});
