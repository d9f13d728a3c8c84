import { edges, rowsFor } from '../row.ts';

const hubUsers = rowsFor(...edges.usedBy, 'worker', 'router', 'simulate');

/** Rows of "Hugging Face Hub". Their names and defaults are those of Hugging Face's own tools. */
export const hubRows = {
  hfEndpoint: hubUsers.url({
    names: 'HF_ENDPOINT',
    schemes: ['http', 'https'],
    default: 'https://huggingface.co',
    source: 'Hugging Face',
    about: 'Hub of models, or a mirror of it.',
  }),
  hfToken: hubUsers.secret({
    names: 'HF_TOKEN HUGGING_FACE_HUB_TOKEN',
    defaultText: 'the content of HF_TOKEN_PATH',
    source: 'Hugging Face',
    about: 'Token for models that are gated or private. It is sent to HF_ENDPOINT only, and never over plain HTTP.',
  }),
  hfTokenPath: hubUsers.file({
    names: 'HF_TOKEN_PATH',
    written: true,
    expandsVariables: true,
    defaultText: 'token in HF_HOME',
    source: 'Hugging Face',
    about: 'File with the token, as `hf auth login` writes it.',
  }),
  hfHome: hubUsers.folder({
    names: 'HF_HOME',
    written: true,
    expandsVariables: true,
    defaultText: 'home/.cache/huggingface',
    source: 'Hugging Face',
    about: "Folder that Hugging Face's tools share. Stator reads and writes the same cache of models in it.",
  }),
  hfHubCache: hubUsers.folder({
    names: 'HF_HUB_CACHE HUGGINGFACE_HUB_CACHE',
    written: true,
    expandsVariables: true,
    defaultText: 'hub in HF_HOME',
    source: 'Hugging Face',
    about: 'Cache of models, if it is not in HF_HOME.',
  }),
  hfHubOffline: hubUsers.bool({
    names: 'HF_HUB_OFFLINE TRANSFORMERS_OFFLINE',
    lenient: true,
    source: 'Hugging Face',
    about: 'Downloads nothing from the hub: models come from folders and from the cache.',
  }),
};
