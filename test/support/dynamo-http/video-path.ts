import { type Expectation, failWith, requestBody } from './expectation.ts';
import { anything, textWith } from './match.ts';
import type { RecordedRow } from './records.ts';

const LEAD_IN = 'Failed to deserialize the JSON body into the target type: ';

/** What the seed's path of a videos route answers, after what the short path is recorded to answer to such a request. */
export function serveVideoPath(expected: Expectation, row: RecordedRow): void {
  const body = requestBody(row);
  const wrong = ['prompt', 'model'].find((field) => body[field] === undefined);
  const hasWrongFormat = body.response_format === 'zz';
  if (row.request.method === 'GET') {
    failWith(expected, 405, textWith('not allowed'));
    expected.headers.allow = 'POST';
  } else if (row.group === 'ctype') failWith(expected, 415, 'Expected request with Content-Type application/json');
  else if (wrong !== undefined || hasWrongFormat) {
    failWith(expected, 400, textWith(LEAD_IN, wrong ?? 'response_format'));
  } else if (body.model === 'nope') failWith(expected, 404, 'Model not found');
  else succeedWithVideo(expected, row, body.stream === true);
}

function succeedWithVideo(expected: Expectation, row: RecordedRow, isStream: boolean): void {
  expected.status = 200;
  delete expected.body;
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
    expected.body = { ...video, created: anything, data };
  }
}
