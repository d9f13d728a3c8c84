import { same } from '../../../support/same.ts';
import { type ReadMessage, type ReadOptions, readCalls } from './read-calls.ts';

const WIDTHS = [1, 2, 3, 5, 7];

/** Reads a text whole; throws if any way to cut it reads otherwise, or shows what the whole text takes back. */
export function readEveryWay(name: string, text: string, options: ReadOptions = {}): ReadMessage {
  const whole = readCalls(name, [text], options);
  for (const pieces of cutsOf(text)) {
    same(
      readCalls(name, pieces, options, (soFar) => checkBeginning(soFar, whole)),
      whole,
    );
  }
  for (let end = 0; end < text.length; end++) {
    const beginning = text.slice(0, end);
    const cut = readCalls(name, [beginning], { ...options, finish: 'length' });
    same(cut.reason, 'length');
    if (!/<[^<>]*$/.test(beginning)) checkBeginning(cut, whole, false); // half a tag of XML may be text of a value
  }
  return whole;
}

/** Every place for one cut, and pieces of several widths. */
function cutsOf(text: string): readonly (readonly string[])[] {
  const pairs = Array.from({ length: text.length }, (_, at) => [text.slice(0, at), text.slice(at)]);
  const even = WIDTHS.map((width) =>
    Array.from({ length: Math.ceil(text.length / width) }, (_, at) => text.slice(at * width, (at + 1) * width)),
  );
  return [...pairs, ...even];
}

/**
 * Checks the message of a text that ends early. What it shows as text may be a call in the whole text, but the parser
 * takes no call back.
 */
function checkBeginning(soFar: ReadMessage, whole: ReadMessage, isOnTheWay = true): void {
  if (isOnTheWay && !whole.content.startsWith(soFar.content)) throw new Error(`${soFar.content} is taken back`);
  same(
    soFar.calls.map(({ id, name, arguments: text }) => ({ id, name, text })),
    whole.calls.slice(0, soFar.calls.length).map(({ id, name, arguments: text }, at) => ({
      id,
      name,
      text: text.slice(0, soFar.calls[at]?.arguments.length),
    })),
  );
}

/** A call as tests write it: `name(arguments)`. */
export function shown({ calls }: ReadMessage): readonly string[] {
  return calls.map((call) => `${call.name}(${call.arguments})`);
}
