# Serves a collection that is mounted at /collection; docs/install.md has the commands.

# The page's scripts, pinned in package-lock.json.
FROM node:22-slim AS scripts
WORKDIR /scripts
COPY package.json package-lock.json ./
RUN npm ci --omit=dev --no-audit --no-fund

# A wheel with the scripts and the compiled kernels.
FROM python:3.11-slim AS wheel
RUN apt-get update \
    && apt-get install --yes --no-install-recommends gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /membra
COPY pyproject.toml setup.py MANIFEST.in README.md LICENSE ./
COPY src src
COPY --from=scripts /scripts/node_modules/htmx.org/dist/htmx.min.js src/membra/show/web/vendor/htmx.js
COPY --from=scripts /scripts/node_modules/htmx.org/LICENSE src/membra/show/web/vendor/htmx.LICENSE.txt
COPY --from=scripts /scripts/node_modules/openseadragon/build/openseadragon/openseadragon.min.js src/membra/show/web/vendor/openseadragon.js
COPY --from=scripts /scripts/node_modules/openseadragon/LICENSE.txt src/membra/show/web/vendor/openseadragon.LICENSE.txt
RUN MEMBRA_RELEASE=1 pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.11-slim
COPY constraints.txt /
COPY --from=wheel /wheels /wheels
RUN pip install --no-cache-dir --constraint /constraints.txt "$(echo /wheels/*.whl)[web]" \
    && rm -r /wheels \
    && useradd --uid 1000 --create-home membra
# Thumbnails and the like: in a place that anybody may write to, since `docker run --user` may make it anybody.
ENV XDG_CACHE_HOME=/tmp/cache MPLCONFIGDIR=/tmp/matplotlib
USER membra
WORKDIR /home/membra
EXPOSE 8000
ENTRYPOINT ["membra"]
# Beyond its own machine the server asks for the key in the address that it prints.
CMD ["serve", "/collection", "--host", "0.0.0.0", "--port", "8000"]
