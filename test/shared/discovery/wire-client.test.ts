import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../../shared/clock/index.ts';
import { loadSdk } from '../../../shared/discovery/table/sdk.ts';
import { connect } from '../../../shared/discovery/table/table-client.ts';
import { TableTime } from '../../../shared/discovery/table/table-time.ts';
import { openWireClient, signedHeaders, wireOptionsOf } from '../../../shared/discovery/table/wire-client.ts';

const LAMBDA = {
  AWS_EXECUTION_ENV: 'AWS_Lambda_nodejs22.x',
  AWS_ACCESS_KEY_ID: 'key',
  AWS_SECRET_ACCESS_KEY: 'secret',
  AWS_SESSION_TOKEN: 'token',
  AWS_REGION: 'eu-central-1',
};
const closers: (() => void)[] = [];
afterEach(() => {
  for (const close of closers.splice(0)) close();
});

/** A server that answers everything alike and keeps what it was asked. */
async function serve(status: number, answer: string) {
  const asked: { readonly headers: IncomingMessage['headers']; readonly body: string }[] = [];
  let dying = 0;
  const server = createServer((request, response) => {
    if (dying > 0) {
      dying--;
      request.socket.destroy();
      return;
    }
    let body = '';
    request.setEncoding('utf8').on('data', (text: string) => {
      body += text;
    });
    request.on('end', () => {
      asked.push({ headers: request.headers, body });
      response.writeHead(status, { 'content-type': 'application/x-amz-json-1.0' }).end(answer);
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  closers.push(() => server.close().closeAllConnections());
  const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const open = () => {
    const options = wireOptionsOf({ endpoint }, LAMBDA);
    if (options === undefined) throw new Error('the SDK would be asked');
    const time = new TableTime(systemClock);
    const client = openWireClient(options, { clock: systemClock, time, requestTimeoutMs: 1000 });
    closers.push(() => client.destroy());
    return client;
  };
  /** Ends the connections of the next requests without an answer. */
  const cut = (requests: number): void => {
    dying = requests;
  };
  return { endpoint, asked, open, cut };
}

const KEY = { pk: { S: 'ä' }, sk: { S: 's' } };
const signal = AbortSignal.timeout(60_000);

describe('the client that a function asks its table with', () => {
  it('signs as the SDK does', async () => {
    const { endpoint, asked } = await serve(200, '{}');
    const sdk = await loadSdk();
    const client = connect(sdk, { endpoint, region: 'eu-central-1' }, 1000);
    const credentials = { accessKeyId: 'key', secretAccessKey: 'secret', sessionToken: 'token' };
    client.config.credentials = async () => credentials;
    await client.send(new sdk.GetItemCommand({ TableName: 't', Key: KEY }));
    client.destroy();
    const [{ headers, body } = { headers: {}, body: '' }] = asked;
    const [, list = ''] = /SignedHeaders=([^,]+)/.exec(headers.authorization ?? '') ?? [];
    const own = new Set(['host', 'x-amz-date', 'x-amz-security-token']);
    const others = list.split(';').filter((name) => !own.has(name));
    const date = String(headers['x-amz-date']).replace(/^(....)(..)(..T..)(..)(..Z)$/, '$1-$2-$3:$4:$5');
    const request = {
      host: headers.host ?? '',
      region: 'eu-central-1',
      headers: Object.fromEntries(others.map((name) => [name, String(headers[name])])),
      body,
      wallMs: Date.parse(date),
    };
    expect(others).toContain('x-amz-target');
    expect(signedHeaders(request, credentials).authorization).toBe(headers.authorization);
  });

  it('sends the request that it gets, with bytes as base64, and returns bytes', async () => {
    const { asked, open } = await serve(200, '{"Item":{"B":{"S":"no bytes"},"v":{"B":"AAEC"},"s":{"BS":["/w=="]}}}');
    const input = { TableName: 't', Key: { ...KEY, sk: { B: new Uint8Array([255, 0]) } } };
    const { Item } = await open().call('GetItem', input, signal);
    expect(Item).toEqual({
      B: { S: 'no bytes' },
      v: { B: new Uint8Array([0, 1, 2]) },
      s: { BS: [new Uint8Array([255])] },
    });
    expect(asked[0]?.headers).toMatchObject({
      'x-amz-target': 'DynamoDB_20120810.GetItem',
      'content-type': 'application/x-amz-json-1.0',
      'x-amz-security-token': 'token',
    });
    expect(JSON.parse(asked[0]?.body ?? '')).toEqual({ TableName: 't', Key: { pk: { S: 'ä' }, sk: { B: '/wA=' } } });
  });

  it.each([
    [
      '{"__type":"com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException","Item":{"pk":{"S":"p"}},"message":"m"}',
    ],
    ['{"__type":"ConditionalCheckFailedException:http://internal/","Item":{"pk":{"S":"p"}},"Message":"m"}'],
  ])('throws the refusal under its name, with its item: %s', async (answer) => {
    const { open } = await serve(400, answer);
    const failed = open().call('UpdateItem', { TableName: 't', Key: KEY }, signal);
    await expect(failed).rejects.toMatchObject({
      name: 'ConditionalCheckFailedException',
      message: 'm',
      Item: { pk: { S: 'p' } },
    });
  });

  it('throws what no service said with the status', async () => {
    const { open } = await serve(502, '<html>');
    const failed = open().call('GetItem', { TableName: 't', Key: KEY }, signal);
    await expect(failed).rejects.toMatchObject({ name: 'UnknownError', message: 'HTTP status 502' });
  });

  it('ends with the signal of its call', async () => {
    const { open } = await serve(200, '{}');
    const failed = open().call('GetItem', { TableName: 't', Key: KEY }, AbortSignal.abort());
    await expect(failed).rejects.toMatchObject({ name: 'AbortError' });
  });

  it('asks again where a kept connection has died meanwhile, and changes nothing twice', async () => {
    const { asked, open, cut } = await serve(200, '{}');
    const client = open();
    const read = () => client.call('GetItem', { TableName: 't', Key: KEY }, signal);
    await read();
    cut(2); // the kept one, and the new one, which cannot have aged
    await expect(read()).rejects.toMatchObject({ code: 'ECONNRESET' });
    await read();
    cut(1);
    await read();
    expect(asked).toHaveLength(3);
    cut(1);
    await expect(client.call('UpdateItem', { TableName: 't', Key: KEY }, signal)).rejects.toMatchObject({
      code: 'ECONNRESET',
    });
    expect(asked).toHaveLength(3);
  });

  it('asks the region itself where no endpoint is given', () => {
    expect(wireOptionsOf({}, LAMBDA)?.url.href).toBe('https://dynamodb.eu-central-1.amazonaws.com/');
    expect(wireOptionsOf({ region: 'us-gov-west-1' }, LAMBDA)?.url.host).toBe('dynamodb.us-gov-west-1.amazonaws.com');
  });

  it.each([
    ['outside of Lambda', { AWS_EXECUTION_ENV: 'AWS_ECS_FARGATE' }],
    ['without keys in the environment', { AWS_ACCESS_KEY_ID: undefined }],
    ['without a region', { AWS_REGION: undefined }],
    ['in a region with another domain', { AWS_REGION: 'cn-north-1' }],
    ['with an endpoint of the environment', { AWS_ENDPOINT_URL_DYNAMODB: 'http://127.0.0.1:1' }],
    ['with a profile', { AWS_PROFILE: 'mine' }],
    ['with FIPS', { AWS_USE_FIPS_ENDPOINT: 'true' }],
  ])('leaves it to the SDK %s', (_name, change) => {
    expect(wireOptionsOf({}, { ...LAMBDA, ...change })).toBeUndefined();
  });
});
