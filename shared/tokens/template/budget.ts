/**
 * Budget of a template. A step is one executed node of the template, 16 characters or one item that it reads: some 30
 * ns. A template runs in one turn of the event loop, so only one budget is in force at a time.
 */

/** Error for a template that exceeds the budget of its input. The message says which limit it exceeded. */
export class TemplateBudgetError extends Error {
  override readonly name = 'TemplateBudgetError';
  /** Whether the input was so small that no sound template needs as much for it. */
  readonly isHopeless: boolean;

  constructor(message: string, isHopeless: boolean) {
    super(message);
    this.isHopeless = isHopeless;
  }
}

/** Steps that any request may take: some 6 ms. */
const STEPS_FREE = 200_000;
/**
 * Steps for each character of the input. They cover a nested loop over thousands of messages; templates in use need
 * about one.
 */
const STEPS_PER_CHAR = 8;
const STEPS_PER_VALUE = 64;
/** Limits of new text in characters and of new lists in bytes, and of the length of one text. */
const CHARS_FREE = 4_000_000;
const CHARS_PER_CHAR = 16;
const TEXT_FREE = 1_000_000;
/**
 * Limit of one text for each character of the input: all tools as JSON in ASCII, twice, is longer by a factor of 12.
 */
const TEXT_PER_CHAR = 12;
const STEP_CHARS = 16;
const ITEM_CHARS = 8;
/** Length up to which a part of a text is found in one pass. Markers are no longer. */
const SEARCH_CHARS_FREE = 32;
/** Size above which an input is not small. */
const SMALL_CHARS = 16_384;
const SMALL_VALUES = 512;

let steps = Number.POSITIVE_INFINITY;
let chars = Number.POSITIVE_INFINITY;
let textMax = Number.POSITIVE_INFINITY;
/** Adds the allowance for the size of the input, once; undefined afterwards. */
let raise: (() => void) | undefined;
let isSmall = true;

/**
 * Runs `action` within the budget of `input`. The input is measured only if the free part is used up.
 * @param stepsFree steps for any input
 * @throws TemplateBudgetError, also if the stack overflows or a text exceeds the longest possible one
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

/** Counts the steps of reading `count` characters. @throws TemplateBudgetError */
export function spendChars(count: number): void {
  if (count >= STEP_CHARS) spend(count / STEP_CHARS);
}

/** Counts the steps of reading a value, without the items inside it. @throws TemplateBudgetError */
export function spendFor(value: unknown): void {
  if (typeof value === 'string') spendChars(value.length);
  else if (Array.isArray(value)) spend(value.length);
}

/**
 * Counts a search for a part of a text. A long part may be compared anew at each character, at some 50 characters a
 * step.
 * @throws TemplateBudgetError
 */
export function spendSearch(textChars: number, partChars: number): void {
  const comparesAnew = partChars > SEARCH_CHARS_FREE && partChars < textChars;
  spendChars(comparesAnew ? textChars + ((textChars - partChars) * partChars) / 4 : textChars);
}

/** Counts a text of `count` characters before it is made. @throws TemplateBudgetError */
export function spendText(count: number): void {
  checkText(count);
  chars -= count;
  spendChars(count);
  if (chars < 0) raise?.();
  if (!(chars >= 0)) throw new TemplateBudgetError('it makes too much text', isSmall);
}

/** Counts a list of `count` items before it is made. @throws TemplateBudgetError */
export function spendItems(count: number): void {
  spend(count + 1);
  chars -= count * ITEM_CHARS;
  if (chars < 0) raise?.();
  if (!(chars >= 0)) throw new TemplateBudgetError('it makes lists with too many items', isSmall);
}

/** Refuses a text of `count` characters if that is too long. Joining two texts copies neither, so it costs no steps. */
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
