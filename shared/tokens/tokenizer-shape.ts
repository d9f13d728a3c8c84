import { asRecord, isRecord, type UnknownRecord } from '../records/index.ts';
import { TOKEN_ID_MAX } from './bpe/tables.ts';

/** Error for a tokenizer.json with content that no tokenizer in use has. The message names the field. */
export class UnsupportedTokenizer extends Error {
  override readonly name = 'UnsupportedTokenizer';
}

/** Limit of nested steps; few are nested in use. */
const DEPTH_MAX = 32;
const STEPS_MAX = 256;
/** Limit of added tokens; the most in use are some thousands. */
const ADDED_TOKENS_MAX = 32_768;
/** Limit of the ids that surround every text. */
const IDS_AROUND_MAX = 1024;
/** Length limit of an added token, which is searched for at each character of a text. */
const TOKEN_UNITS_MAX = 256;
/** Limit of the characters of all added tokens together; some 80,000 in use. */
const ADDED_UNITS_MAX = 1 << 20;
const VOCABULARY_MAX = 1_000_000;
/** Limit of a WordPiece word, whose time grows with the square of its length; 100 in use. */
const WORD_UNITS_MAX = 1000;
/** Limit of the base64 of a Precompiled normalizer; 316 KB in use. */
const CHARACTER_MAP_UNITS_MAX = 4 * 1024 * 1024;
/** Limit of all parts with that map; some 10 KB besides the map in use. */
const PARTS_UNITS_MAX = CHARACTER_MAP_UNITS_MAX + 1024 * 1024;
/** Factor by which a text may grow before it is tokenized. */
const GROWTH_MAX = 64;
const PREFIX_UNITS_MAX = 1024;

const PARTS = ['normalizer', 'pre_tokenizer', 'post_processor', 'decoder'] as const;
/** Fields in which a part lists its steps. */
const STEPS = ['normalizers', 'pretokenizers', 'processors', 'decoders'] as const;

/**
 * Checks a whole tokenizer.json except its vocabulary, which may be missing: the file's author determines what each
 * text costs.
 * @throws UnsupportedTokenizer
 */
export function checkTokenizer(file: unknown): void {
  const record = asRecord(file) ?? refuse('the file', 'is not a JSON object');
  const model = asRecord(record.model) ?? refuse('model', 'is not an object');
  for (const name of PARTS) checkPart(name, record[name]);
  checkGrowth(record.normalizer);
  checkDecoderGrowth(record.decoder);
  checkModel(model);
  const { added_tokens: added } = record;
  if (Array.isArray(added)) checkAddedTokens(added);
  checkSize(record);
}

/** Checks the size of everything but the tokens, which is passed from thread to thread. */
function checkSize(file: UnknownRecord): void {
  const parts = PARTS.map((name) => file[name]);
  let units: number;
  try {
    units = JSON.stringify([parts, { ...asRecord(file.model), vocab: null, merges: null }]).length;
  } catch {
    refuse('the file', 'is nested too deeply');
  }
  if (units <= PARTS_UNITS_MAX) return;
  refuse('the file', `has ${units} characters besides its tokens, more than ${PARTS_UNITS_MAX}`);
}

function checkPart(name: string, part: unknown): void {
  if (part === undefined || part === null) return;
  let steps = 0;
  const waiting: (readonly [place: string, step: unknown, depth: number])[] = [[name, part, 0]];
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    const [place, step, depth] = next;
    if (!isRecord(step) || typeof step.type !== 'string') refuse(place, 'is not an object with a type');
    if (depth > DEPTH_MAX) refuse(name, `is nested more than ${DEPTH_MAX} deep`);
    if (++steps > STEPS_MAX) refuse(name, `has more than ${STEPS_MAX} steps`);
    if (step.type === 'Sequence') {
      const list = STEPS.find((key) => step[key] !== undefined) ?? refuse(place, 'has no list of steps');
      const inner = step[list];
      if (!Array.isArray(inner)) refuse(`${place}.${list}`, 'is not a list');
      for (const [at, each] of inner.slice(0, STEPS_MAX + 1).entries()) {
        waiting.push([depth > 2 ? place : `${place}.${list}[${at}]`, each, depth + 1]);
      }
    } else if (name === 'post_processor') checkAround(place, step);
  }
}

function checkAround(place: string, step: UnknownRecord): void {
  for (const name of ['cls', 'sep'] as const) {
    const pair = step[name];
    if (pair === undefined) continue;
    if (!Array.isArray(pair) || pair.length !== 2 || typeof pair[0] !== 'string' || !isId(pair[1])) {
      refuse(`${place}.${name}`, `is not a pair of a token and an id up to ${TOKEN_ID_MAX}`);
    }
  }
  if (step.type !== 'TemplateProcessing') return;
  const special = asRecord(step.special_tokens) ?? refuse(`${place}.special_tokens`, 'is not an object');
  const { single } = step;
  if (!Array.isArray(single)) refuse(`${place}.single`, 'is not a list');
  let count = 0;
  for (const piece of single) {
    const name = asRecord(asRecord(piece)?.SpecialToken)?.id;
    if (name === undefined) continue;
    const ids = asRecord(Object.hasOwn(special, String(name)) ? special[String(name)] : undefined)?.ids;
    const field = `${place}.special_tokens.${String(name).slice(0, 40)}.ids`;
    if (!Array.isArray(ids)) refuse(field, 'is not a list');
    count += ids.length;
    if (count > IDS_AROUND_MAX) refuse(place, `puts more than ${IDS_AROUND_MAX} ids around a text`);
    if (!ids.every(isId)) refuse(field, `has elements that are not ids up to ${TOKEN_ID_MAX}`);
  }
}

/** Checks how much a normalizer lengthens a text: if each step lengthens it, the text grows without end. */
function checkGrowth(normalizer: unknown, place = 'normalizer', factor = 1): number {
  const step = asRecord(normalizer);
  if (step === undefined) return factor;
  let growth = factor;
  if (step.type === 'Sequence' && Array.isArray(step.normalizers)) {
    for (const [at, each] of step.normalizers.entries()) {
      growth = checkGrowth(each, `${place}.normalizers[${at}]`, growth);
    }
    return growth;
  }
  if (step.type === 'Replace') growth *= growthOf(place, step);
  const { prepend, precompiled_charsmap: map } = step;
  const isLong = typeof prepend === 'string' && prepend.length > PREFIX_UNITS_MAX;
  if (step.type === 'Prepend' && (typeof prepend !== 'string' || isLong)) {
    refuse(`${place}.prepend`, `is not a text of at most ${PREFIX_UNITS_MAX} characters`);
  }
  if (step.type === 'Precompiled' && map !== null && map !== undefined) {
    if (typeof map !== 'string' || map.length > CHARACTER_MAP_UNITS_MAX || !/^[A-Za-z0-9+/]*={0,2}$/.test(map)) {
      refuse(`${place}.precompiled_charsmap`, `is not base64 of at most ${CHARACTER_MAP_UNITS_MAX} characters`);
    }
  }
  if (growth > GROWTH_MAX) refuse(place, `makes texts more than ${GROWTH_MAX} times as long`);
  return growth;
}

/** Checks how much a decoder lengthens a text: it runs for each token of an answer. */
function checkDecoderGrowth(decoder: unknown, place = 'decoder', factor = 1): number {
  const step = asRecord(decoder);
  let growth = factor;
  if (step?.type === 'Sequence' && Array.isArray(step.decoders)) {
    for (const [at, each] of step.decoders.entries()) {
      growth = checkDecoderGrowth(each, `${place}.decoders[${at}]`, growth);
    }
  } else if (step?.type === 'Replace') growth *= growthOf(place, step);
  if (growth > GROWTH_MAX) refuse(place, `makes texts more than ${GROWTH_MAX} times as long`);
  return growth;
}

function growthOf(place: string, { pattern, content }: UnknownRecord): number {
  const { String: text, Regex: regex } = asRecord(pattern) ?? {};
  const source = text ?? regex;
  if (typeof source !== 'string' || source === '') refuse(`${place}.pattern`, 'is not a String or Regex');
  if (typeof content !== 'string') refuse(`${place}.content`, 'is not a text');
  const least = typeof text === 'string' ? text.length : 1;
  return Math.max(1, content.length / least);
}

function checkModel(model: UnknownRecord): void {
  const { type, max_input_chars_per_word: word, unk_id: unknown } = model;
  if (type !== undefined && typeof type !== 'string') refuse('model.type', 'is not a text');
  if (word !== undefined && word !== null && !(isId(word) && word > 0 && word <= WORD_UNITS_MAX)) {
    refuse('model.max_input_chars_per_word', `is not a whole number from 1 to ${WORD_UNITS_MAX}`);
  }
  if (unknown !== undefined && unknown !== null && !isId(unknown)) refuse('model.unk_id', 'is not an id');
  for (const name of ['unk_token', 'continuing_subword_prefix', 'end_of_word_suffix'] as const) {
    const value = model[name];
    if (value === undefined || value === null) continue;
    if (typeof value !== 'string' || value.length > TOKEN_UNITS_MAX) {
      refuse(`model.${name}`, `is not a text of at most ${TOKEN_UNITS_MAX} characters`);
    }
  }
}

function checkAddedTokens(added: readonly unknown[]): void {
  if (added.length > ADDED_TOKENS_MAX) {
    refuse('added_tokens', `has ${added.length} entries, more than ${ADDED_TOKENS_MAX}`);
  }
  let units = 0;
  for (const [at, token] of added.entries()) {
    const content = asRecord(token)?.content;
    if (typeof content !== 'string') continue;
    if (content.length > TOKEN_UNITS_MAX) {
      refuse(`added_tokens[${at}]`, `has ${content.length} characters, more than ${TOKEN_UNITS_MAX}`);
    }
    units += content.length;
    if (units > ADDED_UNITS_MAX) refuse('added_tokens', `have more than ${ADDED_UNITS_MAX} characters together`);
  }
}

/**
 * Checks the vocabulary of a model of a known type. A model without a type is Unigram if its vocabulary is a list.
 * @throws UnsupportedTokenizer
 */
export function checkVocabulary(file: unknown): void {
  const model = asRecord(asRecord(file)?.model) ?? {};
  const { type, vocab, merges } = model;
  if (type === 'Unigram' || (type === undefined && Array.isArray(vocab))) checkUnigram(model);
  else if (!isRecord(vocab)) refuse('model.vocab', 'is not an object');
  if (type === 'BPE' && !Array.isArray(merges)) refuse('model.merges', 'is not a list');
}

/** Checks a list of tokens and their scores. */
function checkUnigram({ vocab, unk_id: unknown }: UnknownRecord): void {
  if (!Array.isArray(vocab)) refuse('model.vocab', 'is not a list');
  if (vocab.length > VOCABULARY_MAX) refuse('model.vocab', `has more than ${VOCABULARY_MAX} entries`);
  if (typeof unknown === 'number' && unknown >= vocab.length) refuse('model.unk_id', 'is outside the vocabulary');
  for (const [at, entry] of vocab.entries()) {
    const [token, score]: readonly unknown[] = Array.isArray(entry) ? entry : [];
    if (typeof token !== 'string' || token.length > TOKEN_UNITS_MAX) {
      refuse(`model.vocab[${at}]`, `has no token of at most ${TOKEN_UNITS_MAX} characters`);
    }
    if (typeof score !== 'number' || !Number.isFinite(score)) refuse(`model.vocab[${at}]`, 'has no score');
  }
}

function isId(value: unknown): value is number {
  return typeof value === 'number' && Number.isInteger(value) && value >= 0 && value <= TOKEN_ID_MAX;
}

function refuse(field: string, what: string): never {
  throw new UnsupportedTokenizer(`${field} ${what}`);
}
