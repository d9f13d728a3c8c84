import { Markers } from '../../markers.ts';
import { ArgumentsWriter, StringMember } from '../arguments-writer.ts';
import { type CallWriter, prefixedUuid } from '../call-writer.ts';
import type { Region, ToolCallFormat } from '../format.ts';
import { convertByType, decodeEntities, isStringParameter, type ToolSchemas } from '../parameter-values.ts';
import { type Parsing, readOneOfBehindSpace, readTagName, readUntil, type TextSource } from '../scan.ts';

const BLOCK = '<tool_call>';
const BLOCK_END = '</tool_call>';
const FUNCTION = '<function=';
const FUNCTION_END = '</function>';
const PARAMETER = '<parameter=';
const PARAMETER_END = '</parameter>';
const PROSE = new Markers([BLOCK, FUNCTION]);
const IN_BLOCK = new Markers([FUNCTION, BLOCK_END]);
const IN_FUNCTION = new Markers([PARAMETER, FUNCTION_END, BLOCK_END, FUNCTION]);
const IN_VALUE = new Markers([PARAMETER_END, FUNCTION_END, BLOCK_END]);

/**
 * `<tool_call><function=NAME><parameter=KEY>VALUE</parameter></function></tool_call>`. Lenient:
 * the closing tag of a parameter or function may be missing at the end of the block.
 */
export const qwen3Coder: ToolCallFormat = {
  newId: prefixedUuid,
  finder: () => PROSE,
  *read(marker, source, calls, tools) {
    return marker === BLOCK ? yield* readBlock(source, calls, tools) : yield* readBareFunctions(source, calls, tools);
  },
};

function* readBlock(source: TextSource, calls: CallWriter, tools: ToolSchemas): Parsing<Region> {
  source.record(BLOCK);
  let stop = yield* readUntil(source, IN_BLOCK);
  const text = source.takeRecord();
  if (stop === undefined) {
    calls.content(text); // a tag that was only talked about
    return 'text';
  }
  while (stop === FUNCTION) {
    stop = yield* readFunction(source, calls, tools);
    if (stop === FUNCTION_END) stop = yield* readUntil(source, IN_BLOCK);
  }
  return 'markup';
}

function* readBareFunctions(source: TextSource, calls: CallWriter, tools: ToolSchemas): Parsing<Region> {
  let stop: string | undefined = FUNCTION;
  while (stop === FUNCTION) {
    stop = yield* readFunction(source, calls, tools);
    if (stop === FUNCTION_END) stop = yield* readOneOfBehindSpace(source, [FUNCTION, BLOCK_END]);
  }
  return 'markup';
}

/** Reads from behind `<function=` and returns what ended the function, which is read too. */
function* readFunction(source: TextSource, calls: CallWriter, tools: ToolSchemas): Parsing<string | undefined> {
  const name = yield* readTagName(source);
  if (name === undefined) return yield* readUntil(source, IN_BLOCK);
  const writer = new ArgumentsWriter(calls, name);
  let stop = yield* readUntil(source, IN_FUNCTION);
  while (stop === PARAMETER) {
    stop = yield* readParameter(source, writer, name, tools);
    if (stop === PARAMETER_END) stop = yield* readUntil(source, IN_FUNCTION);
  }
  if (stop !== undefined) writer.close();
  return stop;
}

/** Reads from behind `<parameter=` and returns what ended it; `undefined` when the text ends inside the value. */
function* readParameter(
  source: TextSource,
  writer: ArgumentsWriter,
  tool: string,
  tools: ToolSchemas,
): Parsing<string | undefined> {
  const key = yield* readTagName(source);
  if (key === undefined) return yield* readUntil(source, IN_FUNCTION);
  const schema = tools.parameter(tool, key);
  if (isStringParameter(schema)) {
    const member = new StringMember(writer, key, { trims: true, decodesEntities: true, knowsNull: true });
    const stop = yield* readValue(source, (piece) => member.push(piece));
    if (stop !== undefined) member.end();
    return stop;
  }
  let text = '';
  const stop = yield* readValue(source, (piece) => {
    text += piece;
  });
  if (stop !== undefined) writer.member(key, convertByType(decodeEntities(text.trim()), schema));
  return stop;
}

/** A value may speak of `</function>`: it ends there only where the block goes on or ends behind it. */
function* readValue(source: TextSource, take: (piece: string) => void): Parsing<string | undefined> {
  for (;;) {
    const stop = yield* readUntil(source, IN_VALUE, take);
    if (stop !== FUNCTION_END) return stop;
    const next = yield* readOneOfBehindSpace(source, [BLOCK_END, FUNCTION]);
    if (next !== undefined) return next;
    if (source.isEnded && source.text.slice(source.at).trim() === '') return FUNCTION_END;
    take(FUNCTION_END);
  }
}
