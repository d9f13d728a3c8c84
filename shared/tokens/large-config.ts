import { asRecord, type UnknownRecord } from '../records/index.ts';
import { UnsupportedTokenizer } from './tokenizer-shape.ts';

/** Size limit of one member, as JSON; the templates of a model have some 50,000 characters. */
const MEMBER_CHARS_MAX = 256 * 1024;
const CHARS_MAX = 512 * 1024;
/** Number of added tokens above which only those with a name of their own are kept. */
const DECODER_ENTRIES_MAX = 1024;

/**
 * Parses a large configuration file of a model, in a thread so that the event loop stays free. tokenizer_config.json
 * repeats all added tokens; only those that it also names are kept. Other members are kept up to a limit of size.
 * @throws SyntaxError when it is broken, UnsupportedTokenizer when the rest is too large
 */
export function readLargeConfig(text: string): UnknownRecord | undefined {
  const record = asRecord(JSON.parse(text));
  if (record === undefined) return undefined;
  const kept: Record<string, unknown> = {};
  let chars = 0;
  for (const [name, value] of Object.entries(record)) {
    const member = name === 'added_tokens_decoder' ? namedTokens(record, value) : value;
    const length = charsOf(member);
    if (length > MEMBER_CHARS_MAX) {
      if (name !== 'chat_template') continue; // labels and other members that no code reads
      throw new UnsupportedTokenizer(`chat_template has ${length} characters, more than ${MEMBER_CHARS_MAX}`);
    }
    chars += name.length + length;
    if (chars > CHARS_MAX) throw new UnsupportedTokenizer(`its members have more than ${CHARS_MAX} characters`);
    kept[name] = member;
  }
  return kept;
}

function charsOf(value: unknown): number {
  try {
    return JSON.stringify(value).length;
  } catch {
    return Number.POSITIVE_INFINITY; // nested too deeply
  }
}

/** Returns the added tokens that are special by name: `bos_token` and the like. */
function namedTokens(config: UnknownRecord, decoder: unknown): unknown {
  const entries = Object.entries(asRecord(decoder) ?? {});
  if (entries.length <= DECODER_ENTRIES_MAX) return decoder;
  const names = Object.keys(config).filter((name) => name.endsWith('_token'));
  const texts = new Set(names.map((name) => asRecord(config[name])?.content ?? config[name]));
  const named = entries.filter(([, entry]) => texts.has(asRecord(entry)?.content));
  return Object.fromEntries(named.slice(0, DECODER_ENTRIES_MAX));
}
