/** What stands between two passages of one answer. */
export const passageSeparator = '\n\n';

/** The built-in text of mock engines: each passage is a whole answer. Encode them with the model's own tokenizer. */
export const readablePassages: readonly string[] = [
  'Hello! You are talking to the mock engine of Stator. No model is running here, so this answer was written in ' +
    'advance, yet everything around it is real: your request was parsed, rendered, tokenized, routed to a worker, ' +
    'scheduled next to other requests, and streamed back to you one token at a time. Attach a real engine when you are ' +
    'ready, and nothing else has to change.',
  'This text comes from a mock engine. It behaves like a server with a large GPU, as far as time and memory go: long ' +
    'prompts take longer to read, many requests at once share one batch, and a prompt that was seen before starts ' +
    'faster, because its blocks are still in the cache. Only the words are not its own.',
  'A mock engine cannot answer your question, but it can show you how an answer travels. The front door checks the ' +
    'request and turns it into tokens. The router looks for the worker that already holds most of the prompt. The ' +
    'worker generates, and each token goes back on the same connection as soon as it exists.',
  'Imagine a library where every visitor brings a long letter and waits for a reply. Clerks who remember the first ' +
    'pages of a letter need to read only the rest. A good doorkeeper therefore sends each visitor to the clerk who ' +
    'remembers most, unless that clerk has a long queue. That doorkeeper is the router, and the memory is the cache.',
  'Here is a small promise you can test: ask the same thing again and you will read the same words. The output of this ' +
    'engine depends on the seed and on the tokens before it, and on nothing else. That is why a stream can move from a ' +
    'worker that stops to another one in the middle of a sentence without a word lost or said twice.',
  'If you stop reading now and close the connection, the worker notices within one step, drops the request and frees ' +
    'its memory for others. If you stay, the text goes on to the end of this paragraph and closes with a finish reason, ' +
    'just as it would with a real model.',
  'Good morning from the machine room. Two workers are ready, their caches are warm, and the clock is ticking. A step ' +
    'takes a few milliseconds, and in each step every running request gets one more token. You have just received ' +
    'about sixty of them.',
  'Let us count the parts of a request: first the words you wrote, then the template around them, then the tokens made ' +
    'from both. The tokens are cut into blocks, and every block gets a name made from all the tokens up to its end. ' +
    'Two prompts that begin alike share the names of their first blocks, and that is how the router knows who has ' +
    'seen them before.',
  'This is sample text, and it is short on purpose. With a real engine behind the same address you would read an ' +
    'answer to your question here. Until then, the numbers in the usage field are true: they count the tokens of your ' +
    'prompt, the tokens of this reply, and how many of the first were found in the cache.',
  'Some things a mock engine is good for: trying a client before the model is chosen, measuring what the front adds to ' +
    'every token, filling a queue to see what happens when it is full, and stopping a worker on purpose to watch its ' +
    'streams carry on elsewhere. It needs no GPU, no download and no patience.',
];
