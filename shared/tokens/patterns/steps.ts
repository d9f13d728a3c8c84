import { ServeError } from '../../errors/index.ts';

/**
 * Budget of the patterns of a tokenizer. A step is an executed instruction of a pattern, or a character that it reads:
 * some 10 ns. A text is encoded in one turn of the event loop, so only one budget is in force at a time.
 */

/** Steps that any text may take: some 2 ms. */
const STEPS_FREE = 200_000;
/** Steps for each UTF-16 unit of the text; patterns in use need about ten. */
const STEPS_PER_UNIT = 128;

let steps = STEPS_FREE;

/** Error for a pattern of the model's tokenizer that takes more steps than the length of the text allows. */
export class PatternBudgetError extends ServeError {
  constructor() {
    super(
      'service_unavailable',
      'The tokenizer of this model cannot be used for this text: a pattern takes too many steps',
    );
  }
}

/** Error for a text that a tokenizer cannot hold, e.g. a word of millions of letters. */
export class TextTooLongError extends ServeError {
  constructor() {
    super(
      'invalid_value',
      'The tokenizer of this model cannot be used for this text: it, or a word of it, is too long',
    );
  }
}

/** Starts the budget for a text of `units` UTF-16 units. */
export function beginSteps(units: number): void {
  steps = STEPS_FREE + STEPS_PER_UNIT * units;
}

/** Takes steps from the budget. @throws PatternBudgetError */
export function takeSteps(count: number): void {
  steps -= count;
  if (steps < 0) throw new PatternBudgetError();
}
