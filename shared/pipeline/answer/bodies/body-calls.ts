import { workerError } from '../../../errors/index.ts';
import { JsonValueScan } from '../../../parsers/index.ts';
import { isRecord, type UnknownRecord } from '../../../records/index.ts';

/** Most calls of one choice: more than any answer has, and few enough to search. */
const CALLS_MAX = 1024;

/** An entry of `delta.tool_calls` in the published shape. */
export interface CallDelta {
  readonly index: number;
  readonly id?: string;
  readonly type?: 'function';
  readonly function: { readonly name?: string; readonly arguments: string };
}

/** A piece of a call as its worker sent it. */
interface Piece {
  /** Number that the worker gave the call. */
  readonly theirs: number | undefined;
  readonly id: string;
  readonly name: string;
  readonly text: string;
}

interface Call {
  readonly index: number;
  readonly theirs: number | undefined;
  theirId: string;
  name: string;
  /** Whether the client has received the name. */
  isAnnounced: boolean;
  /**
   * Arguments that are not sent yet. They wait for the name or, if they are a string that contains an object, for their
   * end.
   */
  held: string;
  /** Whether `held` contains all arguments so far. */
  isHeldToEnd: boolean;
  readonly scan: JsonValueScan;
  /** All arguments so far. */
  text: string;
}

export interface CallRules {
  /** Names of the tools that the client offers. */
  readonly toolNames: ReadonlySet<string>;
  /** Most calls that the client accepts. Further ones are left out. */
  readonly callsMax: number;
  /** Returns an id for the call of that number, if its worker gave none. */
  idOf(index: number): string;
}

/**
 * Puts the pieces of one choice's tool calls in the published shape: each call has its own number and id, and its id
 * and name come first and once. Some workers give several calls the same number, or none. They send ids in the first
 * piece, in every piece or never, and they repeat names or split them.
 *
 * | Piece | goes to |
 * |---|---|
 * | with the id of a known call | that call |
 * | with another id, and a name | a new call, unless the one at its place has the same name and is incomplete |
 * | with a name and no id | the call at its place, if that has no arguments yet, or the same name and is incomplete; otherwise a new one |
 * | without a name | the call at its place, or the last one |
 */
export class BodyCalls {
  readonly #rules: CallRules;
  readonly #calls: Call[] = [];
  /** Calls in the last list with several entries, by their place in it. */
  #places: Call[] = [];
  #out: CallDelta[] = [];
  #orphans = '';

  constructor(rules: CallRules) {
    this.#rules = rules;
  }

  get isEmpty(): boolean {
    return this.#calls.every(({ name }) => name === '');
  }

  /** Text that remains after the end: arguments of calls that never got a name. */
  get orphans(): string {
    return this.#orphans;
  }

  /** @throws ServeError `bad_worker_response` for more calls than any answer has */
  read(parts: readonly unknown[]): readonly CallDelta[] {
    this.#out = [];
    const places: Call[] = [];
    for (const [at, part] of parts.entries()) {
      if (isRecord(part)) places.push(this.#read(pieceOf(part), parts.length > 1 ? at : undefined));
    }
    if (places.length > 1) this.#places = places;
    return this.#out;
  }

  /**
   * Ends all calls so far.
   * @param isCut whether the choice ended at its length, in which case missing parts are not invented
   */
  end(isCut: boolean): readonly CallDelta[] {
    this.#out = [];
    for (const call of this.#calls) {
      const wasHeld = call.isHeldToEnd;
      call.isHeldToEnd = false;
      const rest = wasHeld ? objectInString(call.held) : call.held;
      call.held = '';
      if (call.name === '') {
        this.#orphans += call.text;
        continue;
      }
      const isEmpty = call.text.trim() === '' && !isCut;
      this.#tell(call, isEmpty ? '{}' : rest);
      if (isEmpty) call.text = '{}';
    }
    return this.#out;
  }

  #read(piece: Piece, at: number | undefined): Call {
    const known = this.#at(piece, at);
    const call = known === undefined || this.#beginsAnother(piece, known) ? this.#begin(piece) : known;
    if (call === known) this.#goOn(call, piece);
    this.#grow(call, piece.text, call === known);
    return call;
  }

  /** Returns the call that a piece continues. */
  #at({ theirs, id }: Piece, at: number | undefined): Call | undefined {
    const named = id === '' ? undefined : this.#calls.find(({ theirId }) => theirId === id);
    if (named !== undefined && (theirs === undefined || named.theirs === undefined || named.theirs === theirs)) {
      return named;
    }
    if (theirs !== undefined) return this.#calls.findLast((call) => call.theirs === theirs);
    return at === undefined ? this.#calls.at(-1) : this.#places[at];
  }

  #beginsAnother({ id, name, text }: Piece, known: Call): boolean {
    const isWhole = known.scan.isWhole;
    if (name === '') return id !== '' && known.theirId !== '' && id !== known.theirId && isWhole;
    const isSame = name === known.name;
    if (id !== '' && id === known.theirId) return isWhole && !isSame;
    if (id !== '' && known.theirId !== '') return !(isSame && known.text !== '' && !isWhole);
    if (isWhole) return !(isSame && text.trim() === '');
    if (known.text !== '') return !isSame;
    const { toolNames } = this.#rules;
    return !isSame && toolNames.has(known.name) && toolNames.has(name) && !toolNames.has(known.name + name);
  }

  #begin({ theirs, id, name }: Piece): Call {
    if (this.#calls.length >= CALLS_MAX) throw workerError('BackendProtocol', `more than ${CALLS_MAX} tool calls`);
    const index = this.#calls.length;
    const isKnownId = this.#calls.some(({ theirId }) => theirId === id); // of another call
    const call: Call = {
      index,
      theirs,
      theirId: isKnownId ? '' : id,
      name,
      isAnnounced: false,
      held: '',
      isHeldToEnd: false,
      scan: new JsonValueScan(),
      text: '',
    };
    for (const open of this.#calls) if (!open.isAnnounced && open.name !== '') this.#tell(open, '');
    this.#calls.push(call);
    if (this.#isWholeName(name)) this.#tell(call, '');
    return call;
  }

  /** Takes the id and the name from a later piece of the call. */
  #goOn(call: Call, { id, name }: Piece): void {
    if (call.isAnnounced) return;
    if (call.theirId === '') call.theirId = id;
    if (name !== '' && name !== call.name) call.name += name;
    if (this.#isWholeName(call.name)) this.#tell(call, '');
  }

  /** Whether a tool has this name, and no tool has a longer name that begins with it. */
  #isWholeName(name: string): boolean {
    const { toolNames } = this.#rules;
    if (!toolNames.has(name)) return false;
    for (const other of toolNames) if (other !== name && other.startsWith(name)) return false;
    return true;
  }

  #grow(call: Call, text: string, isKnown: boolean): void {
    if (text === '') return;
    if (isKnown && call.scan.isWhole && (text === call.text || text.trim() === '')) return; // the whole call again
    if (call.text === '' && text.trimStart().startsWith('"')) call.isHeldToEnd = true;
    call.text += text;
    call.scan.push(text);
    if (call.isHeldToEnd || call.name === '') call.held += text;
    else this.#tell(call, text);
  }

  #tell(call: Call, text: string): void {
    const { index, name, theirId } = call;
    if (index >= this.#rules.callsMax) return;
    const told = call.held + text;
    if (call.isAnnounced) {
      if (text !== '') this.#out.push({ index, function: { arguments: text } });
      return;
    }
    call.isAnnounced = true;
    if (!call.isHeldToEnd) call.held = '';
    const id = theirId === '' ? this.#rules.idOf(index) : theirId;
    this.#out.push({ index, id, type: 'function', function: { name, arguments: call.isHeldToEnd ? text : told } });
  }
}

function pieceOf(part: UnknownRecord): Piece {
  const called = isRecord(part.function) ? part.function : part;
  const { index, id } = part;
  if (typeof index === 'number' && index >= CALLS_MAX)
    throw workerError('BackendProtocol', `the index of a tool call is not below ${CALLS_MAX}`);
  return {
    theirs: Number.isInteger(index) && Number(index) >= 0 ? Number(index) : undefined,
    id: typeof id === 'string' ? id : typeof id === 'number' ? String(id) : '',
    name: typeof called.name === 'string' ? called.name : '',
    text: argumentsText(called.arguments ?? called.parameters ?? called.input),
  };
}

function argumentsText(value: unknown): string {
  if (typeof value === 'string') return value;
  return value === undefined || value === null ? '' : JSON.stringify(value);
}

/** Returns the object that a JSON string contains; any other text stays as it is. */
function objectInString(text: string): string {
  try {
    const inner: unknown = JSON.parse(text);
    if (typeof inner === 'string' && isRecord(JSON.parse(inner))) return inner;
  } catch {
    // sent unchanged
  }
  return text;
}
