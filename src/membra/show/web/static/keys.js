// Which letter a key means: what it writes where that is Latin, else what is printed on it for Latin. On a Hebrew layout
// the key J writes a Hebrew letter, and still is the key J.
export const letterOf = (event) => {
  if (/^[a-z]$/i.test(event.key)) return event.key.toLowerCase();
  return /^Key([A-Z])$/.exec(event.code)?.[1].toLowerCase() ?? event.key;
};
