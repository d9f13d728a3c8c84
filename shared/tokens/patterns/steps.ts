import { ServeError } from '../../errors/index.ts';

/**
 * What the patterns of a tokenizer may cost. A step is an instruction of a pattern that is carried out, or a character that
 * it looks at: some 10 ns. Texts are encoded in one turn of the event loop, so one budget is in force at a time.
 */

/** For any text, some 2 ms. */
const STEPS_FREE = 200_000;
/** Patterns in use need about ten. */
const STEPS_PER_UNIT = 128;

let steps = STEPS_FREE;

/** A pattern of the model's tokenizer takes more steps than a text of that length is worth. */
export class PatternBudgetError extends ServeError {
  constructor() {
    super(
      'service_unavailable',
      'The tokenizer of this model cannot be used for this text: a pattern takes too many steps',
    );
  }
}

/** A text that a tokenizer cannot hold, e.g. a word of millions of letters. */
export class TextTooLongError extends ServeError {
  constructor() {
    super(
      'invalid_value',
      'The tokenizer of this model cannot be used for this text: it, or a word of it, is too long',
    );
  }
}

/** Begins the budget for a text of so many UTF-16 units. */
export function beginSteps(units: number): void {
  steps = STEPS_FREE + STEPS_PER_UNIT * units;
}

/** @throws PatternBudgetError */
export function takeSteps(count: number): void {
  steps -= count;
  if (steps < 0) throw new PatternBudgetError();
}
