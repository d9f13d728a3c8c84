import type { Answer } from './call.ts';

const NAMESPACE = 'http://autoscaling.amazonaws.com/doc/2011-01-01/';

/** Returns the body of an answer in the query protocol. */
export function answerBody(action: string, result: Answer, requestId: string): string {
  const inner = element(`${action}Result`, result ?? {});
  const metadata = `<ResponseMetadata><RequestId>${requestId}</RequestId></ResponseMetadata>`;
  return `<${action}Response xmlns="${NAMESPACE}">${inner}${metadata}</${action}Response>`;
}

export function errorBody(code: string, message: string, status: number, requestId: string): string {
  const type = status >= 500 ? 'Receiver' : 'Sender';
  const error = `<Error><Type>${type}</Type><Code>${code}</Code><Message>${escaped(message)}</Message></Error>`;
  return `<ErrorResponse xmlns="${NAMESPACE}">${error}<RequestId>${requestId}</RequestId></ErrorResponse>`;
}

function element(name: string, value: Answer): string {
  return value === undefined ? '' : `<${name}>${content(value)}</${name}>`;
}

function content(value: Answer): string {
  if (value === undefined) return '';
  if (value instanceof Date) return value.toISOString();
  if (Array.isArray(value)) return value.map((member: Answer) => element('member', member)).join('');
  if (typeof value !== 'object') return escaped(`${value}`);
  return Object.entries(value)
    .map(([name, member]) => element(name, member))
    .join('');
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');
}
