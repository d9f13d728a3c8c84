import { asRecord } from '../../records/index.ts';

/** Brings text to the form that the vocabulary was made for. */
export type Normalize = (text: string) => string;

const FORMS = new Set(['NFC', 'NFD', 'NFKC', 'NFKD']);

/**
 * Reads the `normalizer` of a tokenizer.json: nothing (`normalize` undefined), a Unicode form, or a sequence of them.
 * Undefined as a whole for any other kind. Unicode data are Node's: the newest combining marks may be ordered where an
 * older library leaves them alone.
 */
export function readNormalizer(config: unknown): { readonly normalize: Normalize | undefined } | undefined {
  if (config === undefined || config === null) return { normalize: undefined };
  const record = asRecord(config);
  const steps = record?.type === 'Sequence' && Array.isArray(record.normalizers) ? record.normalizers : [config];
  const forms = steps.map((step) => String(asRecord(step)?.type));
  if (!forms.every((form) => FORMS.has(form))) return undefined;
  if (forms.length === 0) return { normalize: undefined };
  return { normalize: (text) => (isAscii(text) ? text : forms.reduce((form, name) => form.normalize(name), text)) };
}

const NOT_ASCII = /[\u0080-\uffff]/;

function isAscii(text: string): boolean {
  return !NOT_ASCII.test(text);
}
