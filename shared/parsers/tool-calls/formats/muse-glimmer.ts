import { Markers } from '../../markers.ts';
import { prefixedUuid } from '../call-ids.ts';
import type { CallWriter } from '../call-writer.ts';
import type { Region, ToolCallFormat } from '../format.ts';
import type { ToolSchemas } from '../parameter-schema.ts';
import { collectUntil, type Parsing, showUntil, type TextSource } from '../scan.ts';
import { HEADER_UNITS_MAX, RECIPIENT, RECIPIENT_START, readRecipientStart, wordsBeside } from './harmony.ts';
import { readFunction, xmlDialect } from './xml-functions.ts';

const START = '<|start|>';
const MESSAGE = '<|message|>';
const ENDS = ['<|eom|>', '<|eot|>'];
const BLOCK = '<atem:function_calls>';
const BLOCK_END = '</atem:function_calls>';
const INVOKE = '<atem:invoke name=';
const PROSE = new Markers([START, MESSAGE, ...ENDS]);
const IN_HEADER = new Markers([MESSAGE, START, ...ENDS]);
const IN_BODY = new Markers([INVOKE, BLOCK, BLOCK_END, START, ...ENDS]);
const TAGS = xmlDialect({
  function: INVOKE,
  functionEnd: '</atem:invoke>',
  parameter: '<atem:parameter name=',
  parameterEnd: '</atem:parameter>',
  blockEnds: [BLOCK_END, START, ...ENDS],
  framesValues: false,
  holdsCalls: false,
  keepsEntities: true,
  toolOf: withoutRepetition,
});
/** Recipients that are not tools: the model itself, in its reasoning, and the user. */
const NOT_TOOLS = ['self', 'user'];

/**
 * Format of Muse Glimmer. In a message to a tool, `<atem:invoke name="NAME">` with `<atem:parameter name="KEY">` for
 * each parameter is a call. In other messages such tags are text.
 */
export const museGlimmer: ToolCallFormat = {
  newId: prefixedUuid,
  keepsSpecialTokens: true,
  finder: () => PROSE,
  *readOpening(source, calls, tools): Parsing<Region> {
    if (!(yield* readRecipientStart(source, calls))) return 'text';
    return yield* readMessage(RECIPIENT_START, source, calls, tools);
  },
  *read(marker, source, calls, tools): Parsing<Region> {
    if (marker !== START) return 'markup';
    source.record(marker);
    return yield* readMessage(marker, source, calls, tools);
  },
};

/** Reads a message from after its beginning, which is recorded. The body is read only if it is addressed to a tool. */
function* readMessage(begin: string, source: TextSource, calls: CallWriter, tools: ToolSchemas): Parsing<Region> {
  const { text, marker } = yield* collectUntil(source, IN_HEADER);
  const header = begin + text;
  const isHeader = marker === MESSAGE && header.length <= HEADER_UNITS_MAX;
  if (marker !== undefined && marker !== MESSAGE) source.unread(marker);
  // A header is markup, unless it has other words than a header has. A text that only begins as one, with a recipient,
  // may be prose.
  const isProse = begin === RECIPIENT_START && !isHeader;
  if (!isProse && wordsBeside(header) === '' && header.length <= HEADER_UNITS_MAX) source.forget();
  else calls.content(source.takeRecord());
  const recipient = RECIPIENT.exec(header)?.[1];
  if (!isHeader || recipient === undefined || NOT_TOOLS.includes(recipient)) return isHeader ? 'text' : 'markup';
  return yield* readBody(source, calls, tools);
}

/** Reads the body of a message to a tool, including its end. Text that is not a call is shown. */
function* readBody(source: TextSource, calls: CallWriter, tools: ToolSchemas): Parsing<Region> {
  for (;;) {
    const stop = yield* showUntil(source, IN_BODY, calls);
    if (stop === INVOKE) {
      source.record(INVOKE);
      yield* readFunction(TAGS, source, calls, tools);
      calls.content(source.takeRecord());
    } else if (stop !== BLOCK && stop !== BLOCK_END) {
      if (stop === START) source.unread(START);
      return 'markup';
    }
  }
}

/** Returns the tool of a name such as `f.f`: the template adds the name of a tool without a namespace as one. */
function withoutRepetition(name: string, tools: ToolSchemas): string {
  const [head, tail, ...more] = name.split('.');
  const isRepeated = head !== undefined && head === tail && more.length === 0;
  return isRepeated && !tools.isDeclared(name) && tools.isDeclared(head) ? head : name;
}
