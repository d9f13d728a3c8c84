import type { Process } from './processes.ts';
import { buildRow, type Row, type RowFields, type Settled, type Unsettled } from './row.ts';
import { type BrokerAddresses, brokersType } from './values/brokers.ts';
import {
  type ChoiceLimits,
  choiceListType,
  choiceType,
  type ListLimits,
  listOfType,
  listType,
  restType,
} from './values/choices.ts';
import { type PathLimits, pathType } from './values/files.ts';
import {
  type JsonLimits,
  type JsonObject,
  type JsonOrFile,
  jsonObjectType,
  jsonOrFileType,
  jsonTextListType,
} from './values/json.ts';
import { decimalType, durationType, integerType, type NumberRange, portType } from './values/numbers.ts';
import {
  booleanType,
  logFilterType,
  routeType,
  secretType,
  type TextLimits,
  textType,
  type UrlLimits,
  urlListType,
  urlType,
} from './values/texts.ts';
import { orNone, type ValueType } from './values/value-type.ts';

/** Makes rows of one type; the row's value can be undefined unless the fields settle it. */
interface RowBuilder<T, Limits> {
  <const P extends Process>(fields: RowFields<P> & Limits & Settled<T>): Row<T, P>;
  <const P extends Process>(fields: RowFields<P> & Limits & Unsettled<T>): Row<T | undefined, P>;
}

function rowBuilder<T, Limits>(makeType: (limits: Limits) => ValueType<T>): RowBuilder<T, Limits> {
  return <P extends Process>(fields: RowFields<P> & Limits & (Settled<T> | Unsettled<T>)): Row<T, P> =>
    buildRow<T, P>(makeType(fields), fields);
}

/** Free text. */
export const text: RowBuilder<string, TextLimits> = rowBuilder(textType);
/** Text that is never shown. */
export const secret: RowBuilder<string, TextLimits> = rowBuilder(secretType);
/** A switch: `--x`, `--no-x`. */
export const bool: RowBuilder<boolean, object> = rowBuilder(booleanType);
/** A whole number. */
export const int: RowBuilder<number, NumberRange> = rowBuilder(integerType);
/** A whole number, or null when switched off. */
export const intOrNone: RowBuilder<number | null, NumberRange> = rowBuilder((range) => orNone(integerType(range)));
/** A number. */
export const decimal: RowBuilder<number, NumberRange> = rowBuilder(decimalType);
/** A number, or null when switched off. */
export const decimalOrNone: RowBuilder<number | null, NumberRange> = rowBuilder((range) => orNone(decimalType(range)));
/** A TCP port. */
export const port: RowBuilder<number, NumberRange> = rowBuilder(portType);
/** A span of time in seconds, written with its unit. */
export const duration: RowBuilder<number, object> = rowBuilder(durationType);
/** The path of a route. */
export const route: RowBuilder<string, object> = rowBuilder(routeType);
/** An absolute URL. */
export const url: RowBuilder<string, UrlLimits> = rowBuilder(urlType);
/** Absolute URLs. */
export const urls: RowBuilder<readonly string[], UrlLimits> = rowBuilder(urlListType);
/** Addresses of message brokers. */
export const brokers: RowBuilder<BrokerAddresses, object> = rowBuilder(brokersType);
/** A log filter. */
export const logFilter: RowBuilder<string, object> = rowBuilder(logFilterType);
/** The path of a file. */
export const file: RowBuilder<string, PathLimits> = rowBuilder((limits) => pathType('file', limits));
/** The path of a folder. */
export const folder: RowBuilder<string, PathLimits> = rowBuilder((limits) => pathType('folder', limits));
/** The path of a file or folder. */
export const fileOrFolder: RowBuilder<string, PathLimits> = rowBuilder((limits) => pathType('file or folder', limits));
/** Texts. */
export const list: RowBuilder<readonly string[], ListLimits> = rowBuilder(listType);
/** The arguments after `--`. */
export const rest: RowBuilder<readonly string[], object> = rowBuilder(restType);
/** Ports. */
export const ports: RowBuilder<readonly number[], NumberRange> = rowBuilder((range) =>
  listOfType(portType(range), 'list of ports'),
);
/** A JSON object. */
export const json: RowBuilder<JsonObject, JsonLimits> = rowBuilder(jsonObjectType);
/** A JSON list of texts. */
export const jsonTexts: RowBuilder<readonly string[], JsonLimits> = rowBuilder(jsonTextListType);
/** A JSON object or the path of a file. */
export const jsonOrFile: RowBuilder<JsonOrFile, JsonLimits> = rowBuilder(jsonOrFileType);

/** One of a few words. */
export function choice<const E extends string, const P extends Process>(
  fields: RowFields<P> & ChoiceLimits<E> & Settled<NoInfer<E>>,
): Row<E, P>;
export function choice<const E extends string, const P extends Process>(
  fields: RowFields<P> & ChoiceLimits<E> & Unsettled<NoInfer<E>>,
): Row<E | undefined, P>;
export function choice<E extends string, P extends Process>(
  fields: RowFields<P> & ChoiceLimits<E> & (Settled<E> | Unsettled<E>),
): Row<E, P> {
  return buildRow<E, P>(choiceType(fields), fields);
}

/** Some of a few words. */
export function choices<const E extends string, const P extends Process>(
  fields: RowFields<P> & ChoiceLimits<E> & Settled<readonly NoInfer<E>[]>,
): Row<readonly E[], P>;
export function choices<const E extends string, const P extends Process>(
  fields: RowFields<P> & ChoiceLimits<E> & Unsettled<readonly NoInfer<E>[]>,
): Row<readonly E[] | undefined, P>;
export function choices<E extends string, P extends Process>(
  fields: RowFields<P> & ChoiceLimits<E> & (Settled<readonly E[]> | Unsettled<readonly E[]>),
): Row<readonly E[], P> {
  return buildRow<readonly E[], P>(choiceListType(fields), fields);
}
