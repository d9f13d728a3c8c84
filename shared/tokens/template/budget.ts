/**
 * What a template may cost. A step is one node of the template that is carried out, or 16 characters or one item that is
 * looked at: some 30 ns. Templates are carried out in one turn of the event loop, so one budget is in force at a time.
 */

/** A template did more than its input is worth. The message says what there was too much of. */
export class TemplateBudgetError extends Error {
  override readonly name = 'TemplateBudgetError';
  /** The input was so small that no sound template needs as much for it. */
  readonly isHopeless: boolean;

  constructor(message: string, isHopeless: boolean) {
    super(message);
    this.isHopeless = isHopeless;
  }
}

/** For any request, some 6 ms. */
const STEPS_FREE = 200_000;
/** A loop within a loop over thousands of messages is within these; templates in use need about one. */
const STEPS_PER_CHAR = 8;
const STEPS_PER_VALUE = 64;
/** Characters of new text and bytes of new lists, and how long one text may be. */
const CHARS_FREE = 4_000_000;
const CHARS_PER_CHAR = 16;
const TEXT_FREE = 1_000_000;
/** All tools as JSON in ASCII, twice, is longer by a factor of 12. */
const TEXT_PER_CHAR = 12;
const STEP_CHARS = 16;
const ITEM_CHARS = 8;
/** Parts of a text as long as markers are found in one pass. */
const SEARCH_CHARS_FREE = 32;
/** More than this many characters and values is no small input. */
const SMALL_CHARS = 16_384;
const SMALL_VALUES = 512;

let steps = Number.POSITIVE_INFINITY;
let chars = Number.POSITIVE_INFINITY;
let textMax = Number.POSITIVE_INFINITY;
/** Adds what the size of the input allows, once; undefined when that was done. */
let raise: (() => void) | undefined;
let isSmall = true;

/**
 * Runs `action` within the budget of `input`, which is looked at only where the free part does not do.
 * @param stepsFree for any input
 * @throws TemplateBudgetError, also for what overflows the stack or the longest text
 */
export function withinBudget<T>(input: unknown, action: () => T, stepsFree = STEPS_FREE): T {
  const outer = { steps, chars, textMax, raise, isSmall };
  steps = stepsFree;
  chars = CHARS_FREE;
  textMax = TEXT_FREE;
  isSmall = true;
  raise = () => {
    raise = undefined;
    const size = sizeOfInput(input);
    isSmall = size.chars <= SMALL_CHARS && size.values <= SMALL_VALUES;
    steps += STEPS_PER_CHAR * size.chars + STEPS_PER_VALUE * size.values;
    chars += CHARS_PER_CHAR * size.chars;
    textMax += TEXT_PER_CHAR * size.chars;
  };
  try {
    return action();
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    raise?.();
    throw new TemplateBudgetError('it is nested too deeply, or makes a text that is too long', isSmall);
  } finally {
    ({ steps, chars, textMax, raise, isSmall } = outer);
  }
}

/** Counts `count` steps. @throws TemplateBudgetError */
export function spend(count: number): void {
  steps -= count;
  if (steps >= 0) return;
  raise?.();
  if (!(steps >= 0)) throw new TemplateBudgetError('it takes too many steps', isSmall);
}

/** Counts the reading of so many characters. @throws TemplateBudgetError */
export function spendChars(count: number): void {
  if (count >= STEP_CHARS) spend(count / STEP_CHARS);
}

/** Counts the reading of a whole value, not of what is in it. @throws TemplateBudgetError */
export function spendFor(value: unknown): void {
  if (typeof value === 'string') spendChars(value.length);
  else if (Array.isArray(value)) spend(value.length);
}

/**
 * Counts a search for a part of a text: a long one may be compared anew at each character, some 50 characters a step.
 * @throws TemplateBudgetError
 */
export function spendSearch(textChars: number, partChars: number): void {
  const comparesAnew = partChars > SEARCH_CHARS_FREE && partChars < textChars;
  spendChars(comparesAnew ? textChars + ((textChars - partChars) * partChars) / 4 : textChars);
}

/** Counts a text of so many characters that is about to be made. @throws TemplateBudgetError */
export function spendText(count: number): void {
  checkText(count);
  chars -= count;
  spendChars(count);
  if (chars < 0) raise?.();
  if (!(chars >= 0)) throw new TemplateBudgetError('it makes too much text', isSmall);
}

/** Counts a list of so many items that is about to be made. @throws TemplateBudgetError */
export function spendItems(count: number): void {
  spend(count + 1);
  chars -= count * ITEM_CHARS;
  if (chars < 0) raise?.();
  if (!(chars >= 0)) throw new TemplateBudgetError('it makes lists with too many items', isSmall);
}

/** Refuses a text of so many characters where that is too long: joining two texts copies neither, so only lengths count. */
export function checkText(count: number): void {
  if (count <= textMax) return;
  raise?.();
  if (!(count <= textMax)) throw new TemplateBudgetError('it makes a text that is too long', isSmall);
}

interface InputSize {
  chars: number;
  values: number;
}

function sizeOfInput(input: unknown): InputSize {
  const size: InputSize = { chars: 0, values: 0 };
  addSize(input, size);
  return size;
}

function addSize(value: unknown, size: InputSize): void {
  size.values++;
  if (typeof value === 'string') size.chars += value.length;
  else if (Array.isArray(value)) for (const item of value) addSize(item, size);
  else if (typeof value === 'object' && value !== null) {
    for (const key in value) {
      size.chars += key.length;
      addSize((value as Readonly<Record<string, unknown>>)[key], size);
    }
  }
}
