import type { DecodedCompletions } from '../../../protocol/openai/index.ts';
import type { WireNames } from './wire-names.ts';

/** What an answer to a batch of prompts is made with. */
export interface CompletionsParts {
  readonly names: WireNames;
  readonly decoded: DecodedCompletions;
  /** Text before each prompt's choices; undefined without `echo`. */
  readonly echoes: readonly string[] | undefined;
  /** Ends the work of all prompts. */
  readonly cancel: () => void;
}
