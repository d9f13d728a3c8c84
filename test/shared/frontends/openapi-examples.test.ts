import { describe, expect, it } from 'vitest';
import { useScriptedServer } from '../../e2e/client-bed.ts';
import { playExamples } from '../../support/openapi-examples.ts';

describe('the examples of /openapi.json', () => {
  const server = useScriptedServer();

  it('are taken as they stand: 2xx wherever an example can name what is there, else a status that the document names', async () => {
    const played = await playExamples(server.url);
    const refused = played.filter(({ status }) => status >= 300).map(({ id, status }) => [id, status]);
    expect(played.filter(({ isDocumented }) => !isDocumented)).toEqual([]);
    expect(Object.fromEntries(refused)).toEqual({
      // ids of answers that nobody made
      cancelRequest: 404,
      getResponse: 404,
      deleteResponse: 404,
      cancelResponse: 404,
      listInputItems: 404,
      // its model for chats has a context of 64 tokens, and the request for a summary alone has more
      compactResponse: 400,
      // this server routes without a look into caches
      explainRequest: 501,
      explainPrompt: 501,
      // this server has no console
      followConsole: 501,
      getConsoleRequest: 501,
      getConsoleWorker: 501,
      drainWorker: 501,
      askPlanner: 501,
      // they need a proof that the examples do not have
      listKeys: 403,
      createKey: 403,
      rotateKey: 403,
      limitKey: 403,
      revokeKey: 403,
    });
  });
});
