// SPDX-License-Identifier: Apache-2.0
// Evaluated in a loaded report by browser_test.py: what is wrong with the page, and its text.
(() => {
  const problems = [];
  const all = selector => [...document.querySelectorAll(selector)];

  const root = document.documentElement;
  if (root.scrollWidth > innerWidth) {
    const wide = all('body *').filter(e => !e.closest('.scroll, pre, svg') &&
                                           e.getBoundingClientRect().right > innerWidth + 1);
    const names = wide.slice(0, 3).map(e => `${e.tagName}.${e.className}`);
    problems.push(`overflows by ${root.scrollWidth - innerWidth} px: ${names}`);
  }

  if (all('h1').length !== 1) problems.push('not exactly one h1');
  let level = 0;
  for (const heading of all('h1, h2, h3, h4')) {
    const next = +heading.tagName[1];
    if (next > level + 1) problems.push(`heading ${level} -> ${next} at "${heading.textContent}"`);
    level = next;
  }
  for (const table of all('table')) {
    const is_map = table.classList.contains('tiles');
    if (!is_map && !table.querySelector('th[scope]')) problems.push('table without headers');
  }
  for (const svg of all('svg')) {
    const hidden = svg.getAttribute('aria-hidden') === 'true';
    if (!hidden && !svg.getAttribute('aria-label')) problems.push('svg without a label');
  }
  for (const region of all('[role=region]')) {
    if (!region.getAttribute('aria-label')) problems.push('region without a label');
    if (region.tabIndex !== 0) problems.push('region that the keyboard does not reach');
  }

  const loading = all('script, style, img, iframe, link, object, embed').map(e => e.tagName).sort();
  if (loading.join() !== 'SCRIPT,STYLE') problems.push(`elements: ${loading}`);
  if (document.title === 'owned') problems.push('a script from the record ran');
  for (const element of all('*')) {
    for (const attribute of element.attributes) {
      if (/^on|^style$/.test(attribute.name)) problems.push(`attribute ${attribute.name}`);
    }
  }

  // Contrast as WCAG 2 defines it, of each text against the nearest background.
  const components = color => color.match(/[\d.]+/g).map(Number);
  const luminance = color => {
    const [r, g, b] = color.slice(0, 3).map(v => v / 255).map(
      v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const seen = new Set();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim()) continue;
    if (['script', 'style', 'title'].includes(element.tagName.toLowerCase())) continue;
    const style = getComputedStyle(element);
    const text = components(element.closest('svg') ? style.fill : style.color);
    let back = [255, 255, 255];
    for (let parent = element; parent; parent = parent.parentElement) {
      const color = components(getComputedStyle(parent).backgroundColor);
      if (color.length < 4 || color[3] > 0) {
        back = color;
        break;
      }
    }
    const [high, low] = [luminance(text), luminance(back)].sort((a, b) => b - a);
    const contrast = (high + 0.05) / (low + 0.05);
    const what = `${element.tagName}.${element.getAttribute('class')}: ${text} on ${back}`;
    if (contrast < 4.5 && !seen.has(what)) {
      seen.add(what);
      problems.push(`contrast ${contrast.toFixed(2)} of ${what}`);
    }
  }
  return JSON.stringify({
    problems,
    text: document.body.innerText + document.body.textContent,
    height: root.scrollHeight,
  });
})()
