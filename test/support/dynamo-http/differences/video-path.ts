import { type Expectation, failWith, refuseWith } from '../expectation.ts';
import { type Body, requestBody } from '../fields.ts';
import { textWith } from '../match.ts';
import type { RecordedRow } from '../records.ts';

const LEAD_IN = 'Failed to deserialize the JSON body into the target type: ';

/**
 * Sets the expected answer of the longer path of a videos route, from the recorded answer of the short path to such a
 * request.
 */
export function serveVideoPath(expected: Expectation, row: RecordedRow): void {
  const { method, path, headers } = row.request;
  if (method !== 'POST') {
    expected.headers.allow = 'POST';
    failWith(expected, row, { status: 405, message: '', told: textWith(method, 'not allowed', path) });
    return;
  }
  const type = headers?.find(([name]) => name === 'content-type')?.[1];
  if (headers !== undefined && !/^application\/(?:[\w.-]+\+)?json/i.test(type ?? '')) {
    refuseWith(expected, row, { status: 415, message: 'Expected request with Content-Type application/json' });
    return;
  }
  const fault = faultOf(row);
  if (fault !== undefined) refuseWith(expected, row, { status: 400, message: `${LEAD_IN}${fault}` });
  else if (row.served?.kind !== 'vid') refuseWith(expected, row, { status: 404, message: 'Model not found' });
  else succeedWithVideo(expected, row, requestBody(row).stream === true);
}

/** Returns the fault that a parser would report for the body. */
function faultOf(row: RecordedRow): string | undefined {
  if (row.asked === undefined) return 'EOF while parsing';
  const body = requestBody(row);
  const missing = ['prompt', 'model'].find((field) => body[field] === undefined);
  if (missing !== undefined) return `missing field \`${missing}\``;
  const { response_format: format } = body;
  const isKnown = format === undefined || format === null || format === 'url' || format === 'b64_json';
  return isKnown ? undefined : `unknown variant \`${format}\`, expected \`url\` or \`b64_json\``;
}

const KNOWN: ReadonlySet<string> = new Set([
  'prompt',
  'input_reference',
  'seconds',
  'size',
  'response_format',
  'output_format',
  'stream',
  'user',
  'nvext',
]);

/** Returns the body without the model. Unknown keys travel separately. */
function passedOn(row: RecordedRow): Body {
  const { model: _model, ...body } = requestBody(row);
  const unknown = Object.entries(body).filter(([key]) => !KNOWN.has(key));
  return {
    ...Object.fromEntries(Object.entries(body).filter(([key]) => KNOWN.has(key))),
    ...(unknown.length === 0 ? {} : { extra_args: { media_passthrough: Object.fromEntries(unknown) } }),
  };
}

function succeedWithVideo(expected: Expectation, row: RecordedRow, isStream: boolean): void {
  expected.status = 200;
  delete expected.body;
  expected.worker = [passedOn(row)];
  const frames = ['frame0', 'frame1'].map((name) => `\ufffd\ufffd${name}`);
  if (row.request.path.endsWith('/stream')) {
    expected.headers = { 'content-type': 'multipart/x-mixed-replace; boundary=frame' };
    const head = '--frame\r\nContent-Type: image/jpeg\r\nContent-Length: 8\r\n\r\n';
    expected.text = frames.map((frame) => `${head}${frame}\r\n`).join('');
    return;
  }
  const data = ['/9hmcmFtZTA=', '/9hmcmFtZTE='].map((b64_json) => ({ output_format: 'jpeg', b64_json }));
  const video = { id: 'video_1', object: 'video', model: 'vid', status: 'completed', progress: 100, created: 0 };
  if (isStream) {
    expected.headers = { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' };
    expected.frames = [...data.map((one) => ({ data: { ...video, data: [one] } })), { data: '[DONE]' }];
  } else {
    expected.headers = { 'content-type': 'application/json' };
    expected.body = { ...video, data };
  }
}
