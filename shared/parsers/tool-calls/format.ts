import type { CallWriter, NewCallId } from './call-writer.ts';
import type { Finder } from './markers.ts';
import type { Parsing, TextSource } from './text-source.ts';
import type { ToolSchemas } from './tool-schemas.ts';

/** What a stretch of the message turned out to be. White space is dropped behind markup and kept behind text. */
export type Region = 'markup' | 'text';

/** How the tool calls of one family of models are written. */
export interface ToolCallFormat {
  readonly newId: NewCallId;
  /** Where markup begins in prose. */
  finder(tools: ToolSchemas): Finder;
  /** Reads from behind a marker up to where prose goes on. */
  read(marker: string, source: TextSource, calls: CallWriter, tools: ToolSchemas): Parsing<Region>;
  /** Reads from the first character of the message, for formats that need no marker there. */
  readOpening?(source: TextSource, calls: CallWriter, tools: ToolSchemas): Parsing<Region>;
  /** A marker that takes white space in front of it along where that holds an empty line. */
  readonly paragraphMarker?: string;
  /** Markers are special tokens of the tokenizer: the request needs `skip_special_tokens: false`. */
  readonly keepsSpecialTokens?: boolean;
  /** Markers that end a turn: where they are end tokens of the model too, their text must be shown to the parser. */
  readonly endTokens?: readonly string[];
}
