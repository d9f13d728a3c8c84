import { accept, oneText, type Parsed, refuse, type ValueType } from './value-type.ts';

/** The values of an enumeration. */
export interface ChoiceLimits<E extends string> {
  readonly values: readonly E[];
  /** Names that are recognised only to be refused, each with the reason, e.g. `is not built yet`. */
  readonly refused?: Readonly<Record<string, string>>;
  /** Other spellings of a value. */
  readonly synonyms?: Readonly<Record<string, E>>;
}

/** Hyphen and underscore are equal in every value. */
function fold(text: string): string {
  return text.trim().replaceAll('_', '-');
}

function pick<E extends string>(text: string, limits: ChoiceLimits<E>): Parsed<E> {
  const wanted = fold(text);
  const value = limits.values.find((candidate) => fold(candidate) === wanted) ?? limits.synonyms?.[wanted];
  if (value !== undefined) return accept(value);
  const reason =
    limits.refused === undefined ? undefined : Object.entries(limits.refused).find(([name]) => fold(name) === wanted);
  return refuse(reason === undefined ? 'unknown value' : reason[1]);
}

/** One of a few words. */
export function choiceType<E extends string>(limits: ChoiceLimits<E>): ValueType<E> {
  return oneText({
    name: 'enum',
    allowed: limits.values.join(', '),
    parse: (text) => pick(text, limits),
  });
}

/** Some of a few words, separated by commas or blanks. */
export function choiceListType<E extends string>(limits: ChoiceLimits<E>): ValueType<readonly E[]> {
  return {
    ...listType({}),
    allowed: limits.values.join(', '),
    parse: (texts) => {
      const picked = splitList(texts).map((text) => pick(text, limits));
      const values: E[] = [];
      for (const one of picked) {
        if (!one.ok) return one;
        values.push(one.value);
      }
      return accept(values);
    },
    show: (values) => values.join(','),
  };
}

/** How a list reads. */
export interface ListLimits {
  readonly allowed?: string;
  /** Each text is one element, commas and blanks included. */
  readonly unsplit?: true;
}

function splitList(texts: readonly string[]): readonly string[] {
  return texts.flatMap((text) => text.split(/[\s,]+/)).filter((text) => text !== '');
}

/** Texts, separated by commas or blanks; a repeated flag appends. */
export function listType(limits: ListLimits): ValueType<readonly string[]> {
  return {
    name: 'list',
    allowed: limits.allowed ?? '',
    arity: 'many',
    isSecret: false,
    emptyIsValue: false,
    parse: (texts) => accept(limits.unsplit === true ? texts.filter((text) => text !== '') : splitList(texts)),
    show: (values) => values.join(','),
  };
}

/** Values of `element`, separated by commas or blanks. */
export function listOfType<T>(element: ValueType<T>, name: string): ValueType<readonly T[]> {
  return {
    name,
    allowed: element.allowed,
    arity: 'many',
    isSecret: false,
    emptyIsValue: false,
    parse: (texts, around) => {
      const values: T[] = [];
      for (const text of splitList(texts)) {
        const parsed = element.parse([text], around);
        if (!parsed.ok) return refuse(`${text} is ${parsed.fault}`);
        values.push(parsed.value);
      }
      return accept(values);
    },
    show: (values) => values.map((value) => element.show(value)).join(','),
  };
}

/** The arguments after `--`, as they are. */
export function restType(): ValueType<readonly string[]> {
  return {
    ...listType({}),
    name: 'arguments',
    arity: 'rest',
    parse: (texts) => accept(texts),
    show: (values) => values.join(' '),
  };
}
